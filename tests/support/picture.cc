#include "tests/support/picture.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tests/support/child_process.h"
#include "tests/support/files.h"

namespace ferry {

absl::StatusOr<Picture> read_picture(absl::string_view data) {
  const std::string directory = make_directory("picture");
  const std::string file = absl::StrCat(directory, "/file");
  const std::string pixels = absl::StrCat(directory, "/pixels");
  write_file(file, data);
  ChildProcess::Options options;
  options.arguments = {"/usr/bin/python3",
                       runfile("tests/support/read_picture.py"), file, pixels};
  const ProcessResult result = run_process(options);
  if (result.exit.code != 0) return absl::InvalidArgumentError(result.err);

  const auto json = nlohmann::json::parse(result.out);
  Picture picture;
  picture.format = json.at("format").get<std::string>();
  picture.mode = json.at("mode").get<std::string>();
  picture.width = json.at("width").get<int>();
  picture.height = json.at("height").get<int>();
  picture.texts = json.at("texts").get<std::map<std::string, std::string>>();
  picture.pixels = read_file(pixels).value_or("");
  return picture;
}

}  // namespace ferry
