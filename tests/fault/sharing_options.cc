#include "tests/fault/sharing_options.h"

#include "absl/strings/str_cat.h"
#include "tests/support/files.h"
#include "tests/support/packages.h"

namespace ferry {

Daemon::Options sharing_options(const Faults& faults,
                                const std::string& weight_transfer) {
  const std::string package = make_package();
  Daemon::Options options = faults.daemon_options("group", package);
  options.pipelines.clear();
  const std::string config = make_directory("config") + "/ferryd.txtpb";
  write_file(config,
             absl::StrCat("pipelines { name: \"group\" path: \"", package,
                          "\" offload { mode: \"layer\" components: \"dit\" "
                          "layer_options { component: \"dit\" "
                          "weight_transfer: \"",
                          weight_transfer, "\" } } }"));
  options.flags.push_back("--config=" + config);
  options.flags.push_back("--platform=simulated");
  options.flags.push_back("--simulated_check");
  return options;
}

}  // namespace ferry
