# syntax=docker/dockerfile:1

# The function's runtime image. `crossplane xpkg build --embed-runtime-image` makes the package of it.
FROM --platform=${BUILDPLATFORM} golang:1.26.8 AS build
WORKDIR /fn
ENV CGO_ENABLED=0
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=dev
# The package that this image becomes; the Jobs which the function composes run it.
ARG IMG=
RUN --mount=target=. \
    --mount=type=cache,target=/go/pkg/mod \
    --mount=type=cache,target=/root/.cache/go-build \
    GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build -buildvcs=false -trimpath -ldflags "-s -w -X main.version=${VERSION} -X main.agentImage=${IMG}" -o /directoryservice ./cmd/directoryservice

FROM gcr.io/distroless/static-debian12:nonroot
WORKDIR /
COPY --from=build /directoryservice /directoryservice
EXPOSE 9443
USER nonroot:nonroot
ENTRYPOINT ["/directoryservice"]
