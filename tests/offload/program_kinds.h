#pragma once

#include <vector>

#include "tests/offload/program_kind.h"
#include "tests/offload/random_program.h"

namespace ferry {

// Small programs that stand for the kinds of faults that offloading could make,
// at least three for each kind: with encoders and DiTs, and with weights in
// float, int8 and float8. The random ones combine what these have one by one.
//
//   kind               | programs
//   -------------------|---------------------------------------------------
//   forward hooks      | hook_of_encoder_reads_int8, hook_returns_a_view,
//                      | hook_writes_a_buffer, pre_hook_reads_float8
//   silent writers     | instance_norm_in_encoder, batch_norm_on_a_row,
//                      | native_batch_norm_in_hook
//   silent views       | sum_to_size_written, to_dense_int8_written,
//                      | unsafe_split_float8_written, cartesian_prod_written
//   free functions     | function_reads_int8, function_writes,
//                      | function_of_an_interface
//   written state      | buffer_counts, attribute_is_replaced,
//                      | dict_keeps_a_view, attribute_is_written
//   random operators   | randn_like_in_encoder, bernoulli_of_int8,
//                      | dropout_in_dit
//   autograd           | gradient_through_int8, gradient_through_float8,
//                      | gradient_beside_an_encoder
//   absolute offsets   | as_strided_counts_from_the_start,
//                      | as_strided_of_what_a_hook_got,
//                      | storage_offset_is_a_number,
//                      | as_strided_from_behind_the_start,
//                      | as_strided_of_what_a_block_returned
//   order of blocks    | encoder_runs_twice, blocks_run_backwards,
//                      | block_runs_first_and_last,
//                      | encoder_runs_the_second_first, dit_refines_in_the_end
struct NamedProgram {
  ProgramKind kind;
  RandomProgram program;
};
std::vector<NamedProgram> program_kinds();

}  // namespace ferry
