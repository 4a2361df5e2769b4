#include "tests/fault/sharing_options.h"

#include "absl/strings/str_cat.h"
#include "tests/support/files.h"
#include "tests/support/packages.h"

namespace ferry {
namespace {

Daemon::Options options_of(const Faults& faults, const std::string& package,
                           const std::string& offload) {
  Daemon::Options options = faults.daemon_options("group", package);
  options.pipelines.clear();
  const std::string config = make_directory("config") + "/ferryd.txtpb";
  write_file(config, absl::StrCat("pipelines { name: \"group\" path: \"",
                                  package, "\" offload { ", offload, " } }"));
  options.flags.push_back("--config=" + config);
  options.flags.push_back("--platform=simulated");
  options.flags.push_back("--simulated_check");
  return options;
}

}  // namespace

Daemon::Options sharing_options(const Faults& faults,
                                const std::string& weight_transfer) {
  return options_of(faults, make_package(),
                    absl::StrCat("mode: \"layer\" components: \"dit\" "
                                 "layer_options { component: \"dit\" "
                                 "weight_transfer: \"",
                                 weight_transfer, "\" }"));
}

Daemon::Options choosing_options(const Faults& faults) {
  Daemon::Options options =
      options_of(faults, make_package({"--blocks=8", "--ballast_bytes=100000"}),
                 "mode: \"auto\"");
  // Two thirds of the weights, and a fifth of a second for a pass over them.
  options.flags.push_back("--simulated_device_memory=720000");
  options.flags.push_back("--simulated_h2d_gbps=0.004");
  return options;
}

}  // namespace ferry
