#pragma once

#include "absl/strings/string_view.h"

namespace ferry {

// What a component is for; decides what may be on the device together.
enum class ComponentRole { kDit, kTextEncoder, kVae, kResident };

// As reports write it: dit, text_encoder, vae, resident.
constexpr absl::string_view to_string(ComponentRole role) {
  switch (role) {
    case ComponentRole::kDit:
      return "dit";
    case ComponentRole::kTextEncoder:
      return "text_encoder";
    case ComponentRole::kVae:
      return "vae";
    case ComponentRole::kResident:
      return "resident";
  }
  return "unknown";
}

}  // namespace ferry
