// Measures offloading, on the simulated device. Prints JSON lines on standard
// output.
//
//   offload_bench PACKAGE [BENCHMARK]

#include <string>

#include "tests/benchmarks/benchmark_main.h"
#include "tests/benchmarks/bind_prefetch.h"
#include "tests/benchmarks/gather_cost.h"
#include "tests/benchmarks/hook_point_cost.h"
#include "tests/benchmarks/host_memory.h"
#include "tests/benchmarks/load_blocks.h"
#include "tests/benchmarks/overlap.h"
#include "tests/benchmarks/steady_state.h"
#include "tests/benchmarks/weight_copies.h"

int main(int argc, char** argv) {
  return ferry::benchmark_main(argc, argv, [](const std::string& package) {
    return ferry::Benchmarks{
        {"overlap", ferry::measure_overlap},
        {"overlap_unequal", ferry::measure_overlap_unequal},
        {"interleaved_vs_leading", ferry::measure_interleaved_vs_leading},
        {"bind_prefetch", ferry::measure_bind_prefetch},
        {"gather_cost", ferry::measure_gather_cost},
        {"steady_state_allocations", ferry::measure_steady_state_allocations},
        {"weight_d2h_bytes", [=] { ferry::measure_weight_copies(package); }},
        {"hook_point", ferry::measure_hook_point},
        {"host_memory", ferry::measure_host_memory},
        {"load_blocks", ferry::measure_load_blocks},
    };
  });
}
