#pragma once

#include <string>
#include <vector>

namespace ferry {

// What a random program can do with a tensor: one line of the source.
//
// Shapes are letters: S [], V [8], M [8, 8], X [2, 8], A any of at least one
// element. `takes` has those that the operator takes. In the code $0 stands for
// the tensor, $i for a row (0 or 1), x for what passes through the blocks.
struct TensorOperator {
  const char* takes;
  // '=' the same.
  char gives;
  const char* code;
};

// Views, as their schemas say. Of every data type.
const std::vector<TensorOperator>& declared_views();
// Views whose elements share memory, likewise: they must not be written.
const std::vector<TensorOperator>& overlapping_views();
// What returns its argument or a view of it, at least with these arguments, and
// does not say so.
const std::vector<TensorOperator>& silent_views();
// Fresh memory.
const std::vector<TensorOperator>& fresh_operators();
// Fresh memory, of LibTorch's global generator.
const std::vector<TensorOperator>& random_operators();
// Writes $0, as the schema says; statements.
const std::vector<TensorOperator>& declared_writers();
// Writes $0, and does not say so; gives X, to be added to x.
const std::vector<TensorOperator>& silent_writers();

}  // namespace ferry
