#pragma once

#include <string>

namespace ferry {

// Sends what gRPC and Protobuf log into ours, so that their lines look like
// ours and hold no text that could forge one. gRPC's severity "error" becomes
// a warning: it says so of many things that are handled.
//
// Threads: call it in main, before either library is used.
void route_foreign_logs();

// The field whose text was no UTF-8, so that Protobuf refused the message that
// it parsed last on this thread, such as ferry.v1.GenerationSpec.prompt; empty
// when there is none, or route_foreign_logs() was not called. Protobuf tells it
// its log alone. Forgets it.
std::string take_invalid_text_field();

}  // namespace ferry
