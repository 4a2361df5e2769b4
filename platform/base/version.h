#pragma once

namespace ferry {

// Of the whole project; what --version prints.
inline constexpr char kVersion[] = "0.1.0";

}  // namespace ferry
