#pragma once

namespace ferry {

// Sends what gRPC and Protobuf log into ours, so that their lines look like
// ours and hold no text that could forge one. gRPC's severity "error" becomes
// a warning: it says so of many things that are handled.
//
// Threads: call it in main, before either library is used.
void route_foreign_logs();

}  // namespace ferry
