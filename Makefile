# Each target sets up by itself what it needs and is missing.

.DEFAULT_GOAL := help
.PHONY: help setup build test test-cuda-dry test-asan test-tsan fuzz fuzz-programs lint format demo demo-distributed bench goldens-check

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16

setup:  ## install Debian packages and LibTorch, once
	@tools/setup

build: setup  ## build everything; programs come to lie below bazel-bin/
	bazel build //...

test:  ## run all tests that need no GPU
	tools/test

test-cuda-dry: setup  ## the GPU tests and ferryd on a CUDA without a GPU; needs the libraries of tools/setup --cuda
	tests/gpu/dry/run

test-asan:  ## C++ tests without LibTorch: addresses, leaks, undefined behaviour
	tools/test_sanitized asan

test-tsan:  ## C++ tests without LibTorch: data races
	tools/test_sanitized tsan

fuzz:  ## every libFuzzer program for SECONDS, 20 unless given
	tools/fuzz $(SECONDS)

fuzz-programs: setup  ## random TorchScript programs by random offload policies, for SECONDS, 20 unless given
	bazel run //tests/offload:fuzz_programs -- --seconds=$(or $(SECONDS),20)

lint: setup  ## formatting, clang-tidy, buf, and the rules of the build
	tools/lint/run

format: setup  ## format all C++ sources in place
	git ls-files -z -co --exclude-standard '*.h' '*.cc' | xargs -0r clang-format -i

demo:  ## make a picture with the demo pipeline
	tools/demo

demo-distributed: setup  ## ranks that share one copy of the weights; one is killed
	bazel build //server/frontend:ferryd //server/worker:ferry_worker //client:ferryctl
	tools/demo_distributed.py bazel-bin/server/frontend/ferryd \
		bazel-bin/client/ferryctl pipelines/demo/package

bench: setup  ## measure; one JSON object a line on standard output
	@tests/benchmarks/run

goldens-check: setup  ## compute the schedulers' golden numbers again and compare
	tools/goldens/check
