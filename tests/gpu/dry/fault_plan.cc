#include "tests/gpu/dry/fault_plan.h"

#include <charconv>
#include <sstream>
#include <utility>

namespace ferry::dry {
namespace {

template <typename Number>
bool read(const std::string& text, Number* value) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && stop == end && !text.empty();
}

// "late:719" is kLate and 719.
bool parse_fault(const std::string& text, FaultPlan::Fault* fault) {
  using Kind = FaultPlan::Fault::Kind;
  if (text == "hang") {
    fault->kind = Kind::kHang;
    return true;
  }
  const size_t colon = text.find(':');
  const std::string kind =
      colon == std::string::npos ? "" : text.substr(0, colon);
  if (kind.empty()) fault->kind = Kind::kError;
  if (kind == "late") fault->kind = Kind::kLate;
  if (kind == "remote") fault->kind = Kind::kRemote;
  return fault->kind != Kind::kNone &&
         read(colon == std::string::npos ? text : text.substr(colon + 1),
              &fault->error);
}

}  // namespace

bool FaultPlan::parse(const std::string& item, std::string* call,
                      Planned* planned) {
  const size_t equals = item.find('=');
  const size_t at = item.find('@');
  if (equals == std::string::npos || at == std::string::npos || at > equals) {
    return false;
  }
  std::string who = item.substr(0, at);
  const size_t colon = who.find(':');
  if (colon != std::string::npos) {
    if (!read(who.substr(0, colon), &planned->device)) return false;
    who = who.substr(colon + 1);
  }
  *call = who;
  return !who.empty() &&
         read(item.substr(at + 1, equals - at - 1), &planned->remaining) &&
         planned->remaining > 0 &&
         parse_fault(item.substr(equals + 1), &planned->fault);
}

bool FaultPlan::set(const std::string& text) {
  MutexLock lock(&mutex_);
  plan_.clear();
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) {
    std::string call;
    Planned planned;
    if (!parse(item, &call, &planned)) {
      plan_.clear();
      return false;
    }
    plan_[call].push_back(planned);
  }
  return true;
}

FaultPlan::Fault FaultPlan::next(const char* call, int device) {
  MutexLock lock(&mutex_);
  const auto found = plan_.find(call);
  if (found == plan_.end()) return {};
  Fault fault;
  for (Planned& planned : found->second) {
    if (planned.device >= 0 && planned.device != device) continue;
    if (planned.remaining > 0 && --planned.remaining == 0) {
      fault = planned.fault;
    }
  }
  return fault;
}

}  // namespace ferry::dry
