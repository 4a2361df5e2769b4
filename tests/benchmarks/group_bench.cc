// Measures groups of ranks. Prints JSON lines on standard output.
//
//   group_bench PACKAGE [BENCHMARK]

#include <string>

#include "tests/benchmarks/allgather_overlap.h"
#include "tests/benchmarks/benchmark_main.h"
#include "tests/benchmarks/group_communication.h"
#include "tests/benchmarks/group_memory.h"
#include "tests/benchmarks/group_recovery.h"
#include "tests/benchmarks/group_throughput.h"
#include "tests/benchmarks/join_passes.h"

int main(int argc, char** argv) {
  return ferry::benchmark_main(argc, argv, [](const std::string& package) {
    return ferry::Benchmarks{
        {"allgather_overlap", ferry::measure_allgather_overlap},
        {"throughput_n4_vs_n1", ferry::measure_group_throughput},
        {"join_passes", ferry::measure_join_passes},
        {"vote_overhead", ferry::measure_vote_overhead},
        {"gather_busbw", ferry::measure_gather_busbw},
        {"host_bytes_n4", ferry::measure_group_memory},
        {"group_recovery", [=] { ferry::measure_group_recovery(package); }},
    };
  });
}
