#include "pipelines/package.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ferry/config/v1/pipeline_manifest.pb.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;

constexpr char kManifest[] = R"(tasks: "text-to-image"
guidance: GUIDANCE_CLASSIFIER_FREE
limits {
  size_multiple: 8 min_edge: 16 max_edge: 128 max_pixels: 16384
  max_images: 4 max_num_inference_steps: 200
}
defaults {
  height: 32 width: 64 num_inference_steps: 4 guidance_scale: 3
}
tokenizers { kind: KIND_SENTENCEPIECE file: "t.model" max_length: 16 }
)";

class PackageTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::path(testing::TempDir()) / "package";
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }

  absl::StatusOr<Package> load(const std::string& manifest) {
    std::ofstream(directory_ / "ferry.txtpb") << manifest;
    return Package::load(directory_);
  }

  // Loads the good manifest with one text replaced by another.
  std::string error_with(const std::string& from, const std::string& to) {
    const std::string manifest = absl::StrReplaceAll(kManifest, {{from, to}});
    EXPECT_NE(manifest, kManifest) << from;
    const absl::Status status = load(manifest).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << to;
    return std::string(status.message());
  }

  std::filesystem::path directory_;
};

TEST_F(PackageTest, CallsGitLfsPointersByName) {
  constexpr char kPointer[] =
      "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n";
  for (const char* file : {"pipeline.pt", "t.model"}) {
    std::ofstream(directory_ / file) << kPointer;
    const absl::Status status = load(kManifest).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(),
              absl::StrCat(file,
                           ": is a Git LFS pointer; fetch the file with "
                           "git lfs pull"));
    std::ofstream(directory_ / file) << "version 3";
    EXPECT_TRUE(load(kManifest).ok());
  }
  EXPECT_EQ(load(kPointer).status().message(),
            "ferry.txtpb: is a Git LFS pointer; fetch the file with git lfs "
            "pull");
}

TEST_F(PackageTest, MuIsFixedByANumberOnly) {
  const auto error = [&](const std::string& fields) {
    const absl::Status status =
        load(absl::StrCat(kManifest, "scheduler {", fields, "}")).status();
    return std::string(status.message());
  };
  EXPECT_EQ(error("mu: MU_FIXED fixed_mu: 1.15"), "");
  EXPECT_EQ(error("mu: MU_FIXED fixed_mu: 0"), "");
  EXPECT_EQ(error("mu: MU_EMPIRICAL sigma_grid: SIGMA_GRID_WHOLE_TIMESTEPS"),
            "");
  EXPECT_THAT(error("mu: MU_FIXED"), HasSubstr("fixed_mu: must be set"));
  EXPECT_THAT(error("mu: MU_LINEAR fixed_mu: 1"),
              HasSubstr("fixed_mu: must be unset"));
  EXPECT_THAT(error("fixed_mu: 1"), HasSubstr("fixed_mu: must be unset"));
  for (const char* number : {"nan", "inf", "101", "-1e9"}) {
    EXPECT_THAT(error(absl::StrCat("mu: MU_FIXED fixed_mu: ", number)),
                HasSubstr("scheduler.fixed_mu: must be -100 to 100"))
        << number;
  }
  EXPECT_THAT(error("mu: MU_CUBIC"), HasSubstr("MU_CUBIC"));
}

TEST_F(PackageTest, FillsInWhatIsLeftOut) {
  const auto package = load(kManifest);
  ASSERT_TRUE(package.ok()) << package.status();
  EXPECT_EQ(package->directory, directory_);
  EXPECT_EQ(package->manifest.module(), "pipeline.pt");
  EXPECT_EQ(package->manifest.scheduler().config(),
            "scheduler/scheduler_config.json");
  EXPECT_EQ(package->manifest.scheduler().patch_size(), 1);
  EXPECT_EQ(package->manifest.limits().max_sequence_length(), 16);
}

TEST_F(PackageTest, NamesAMissingDirectoryOrManifest) {
  const absl::Status no_manifest = Package::load(directory_).status();
  EXPECT_EQ(no_manifest.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::StrContains(no_manifest.message(), "ferry.txtpb"));
  std::filesystem::create_directory(directory_ / "ferry.txtpb");
  EXPECT_EQ(Package::load(directory_).status().message(),
            "ferry.txtpb: is no regular file");
  const absl::Status no_directory =
      Package::load(directory_ / "nowhere").status();
  EXPECT_EQ(no_directory.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::StrContains(no_directory.message(), "nowhere"));
}

TEST_F(PackageTest, UnknownFieldsAreErrorsWithTheirPlace) {
  const absl::Status status =
      load(absl::StrCat("version: \"1\"\n  verison: \"1\"\n", kManifest))
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StartsWith(status.message(), "ferry.txtpb:2:")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "verison")) << status;
}

TEST_F(PackageTest, SyntaxErrorsHaveTheirPlace) {
  const absl::Status status = load("tasks: text-to-image\n").status();
  EXPECT_TRUE(absl::StartsWith(status.message(), "ferry.txtpb:1:8: "))
      << status;
}

TEST_F(PackageTest, ListsEveryBadFieldAtOnce) {
  const absl::Status status = load("").status();
  for (const char* field :
       {"tasks: ", "guidance: ", "limits.size_multiple: ", "limits.min_edge: ",
        "limits.max_edge: ", "limits.max_images: ",
        "limits.max_num_inference_steps: ", "defaults.num_inference_steps: ",
        "tokenizers: "}) {
    EXPECT_TRUE(absl::StrContains(status.message(), field)) << field;
  }
  EXPECT_TRUE(absl::StartsWith(status.message(), "ferry.txtpb: "));
}

TEST_F(PackageTest, AVersionIsShortText) {
  const std::string tasks = "tasks: \"text-to-image\"";
  for (const std::string& version :
       {std::string(257, 'v'), std::string("\\377")}) {
    EXPECT_TRUE(absl::StrContains(
        error_with(tasks, absl::StrCat(tasks, " version: \"", version, "\"")),
        "version: must be at most 256 bytes of UTF-8"));
  }
}

TEST_F(PackageTest, PathsStayInThePackage) {
  for (const char* path : {"../t.model", "/t.model", "a/../../t.model"}) {
    EXPECT_TRUE(absl::StrContains(
        error_with("t.model", path),
        absl::StrCat("tokenizers[0].file: must be a relative path without "
                     "\"..\", is \"",
                     path, "\"")));
  }
  EXPECT_TRUE(absl::StrContains(
      error_with("tasks:", "module: \"../pipeline.pt\" tasks:"), "module: "));
  EXPECT_TRUE(absl::StrContains(
      error_with("tasks:", "scheduler { config: \"/etc/passwd\" } tasks:"),
      "scheduler.config: "));
}

TEST_F(PackageTest, PickledWeightsAreRefused) {
  for (const char* file : {"model.bin", "model.ckpt", "MODEL.CKPT"}) {
    EXPECT_TRUE(absl::StrContains(
        error_with("tasks:", absl::StrCat("module: \"", file, "\" tasks:")),
        "pickled weights"))
        << file;
  }
}

TEST_F(PackageTest, ReadsWeightsAndTies) {
  const auto package = load(absl::StrCat(kManifest, R"(
weights { component: "transformer" file: "transformer/m.safetensors" }
weights { component: "a.b_2" file: "enc/m.safetensors.index.json" }
weights { file: "m.safetensors" }
tied_parameters { names: "a.b_2.shared.weight" names: "a.b_2.tokens.weight" }
headroom_bytes: 7
)"));
  ASSERT_TRUE(package.ok()) << package.status();
  EXPECT_EQ(package->manifest.weights_size(), 3);
  EXPECT_EQ(package->manifest.headroom_bytes(), 7);
}

TEST_F(PackageTest, ChecksWeightsAndTies) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"weights { }", "weights[0].file: must name a file"},
      {"weights { file: \"../m.safetensors\" }",
       "weights[0].file: must be a relative path without \"..\""},
      {"weights { file: \"/m.safetensors\" }",
       "weights[0].file: must be a relative path without \"..\""},
      {"weights { file: \"m.json\" }",
       "weights[0].file: must be a .safetensors file, or the "
       ".safetensors.index.json of several"},
      {"weights { file: \"pytorch_model.bin\" }",
       "weights[0].file: \"pytorch_model.bin\": pickled weights are refused"},
      {"weights { file: \"m.ckpt\" }", "pickled weights are refused"},
      {"weights { file: \"a.safetensors\" } "
       "weights { component: \"b\" file: \"a.safetensors\" }",
       "weights[1].file: names a.safetensors again"},
      {"weights { component: \"a..b\" file: \"m.safetensors\" }",
       "weights[0].component: must be the dotted path of a submodule"},
      {"weights { component: \".a\" file: \"m.safetensors\" }",
       "weights[0].component: must be the dotted path of a submodule"},
      {"tied_parameters { names: \"a\" names: \"b\" }",
       "tied_parameters: are for weights from files"},
      {"weights { file: \"m.safetensors\" } tied_parameters { names: \"a\" }",
       "tied_parameters[0].names: must hold at least two"},
      {"weights { file: \"m.safetensors\" } "
       "tied_parameters { names: \"a\" names: \"b\" } "
       "tied_parameters { names: \"c\" names: \"a\" }",
       "tied_parameters[1].names: there is another a"},
      {"weights { file: \"m.safetensors\" } "
       "tied_parameters { names: \"a b\" names: \"b\" }",
       "tied_parameters[0].names: \"a b\" is no dotted path"},
      {"headroom_bytes: -1",
       "headroom_bytes: must be 0 to 1152921504606846976, is -1"},
      {"headroom_bytes: 9223372036854775807",
       "headroom_bytes: must be 0 to 1152921504606846976, is "
       "9223372036854775807"},
  };
  for (const auto& [text, told] : bad) {
    const absl::Status status = load(absl::StrCat(kManifest, text)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_TRUE(absl::StrContains(status.message(), told)) << status;
  }
}

TEST_F(PackageTest, DefaultsLieWithinTheLimits) {
  EXPECT_TRUE(absl::StrContains(error_with("height: 32", "height: 8"),
                                "defaults.height: must be 16 to 128, is 8"));
  EXPECT_TRUE(
      absl::StrContains(error_with("width: 64", "width: 60"),
                        "defaults.width: must be a multiple of 8, is 60"));
  EXPECT_TRUE(absl::StrContains(error_with("16384", "1024"),
                                "limits.max_pixels, is 2048"));
  EXPECT_TRUE(absl::StrContains(
      error_with("num_inference_steps: 4", "num_inference_steps: 201"),
      "defaults.num_inference_steps: must be 1 to 200, is 201"));
  EXPECT_TRUE(
      absl::StrContains(error_with("guidance_scale: 3", "guidance_scale: 51"),
                        "defaults.guidance_scale: must be 0 to 50, is 51"));
  EXPECT_TRUE(
      absl::StrContains(error_with("guidance_scale: 3", "guidance_scale: nan"),
                        "defaults.guidance_scale: must be 0 to 50"));
}

TEST_F(PackageTest, NoGuidanceMeansNoScale) {
  EXPECT_TRUE(absl::StrContains(
      error_with("GUIDANCE_CLASSIFIER_FREE", "GUIDANCE_NONE"),
      "defaults.guidance_scale: must be unset with GUIDANCE_NONE"));
}

TEST_F(PackageTest, ChecksTokenizers) {
  EXPECT_TRUE(absl::StrContains(error_with("KIND_SENTENCEPIECE", "0"),
                                "tokenizers[0].kind: "));
  EXPECT_TRUE(
      absl::StrContains(error_with("max_length: 16", "max_length: 0"),
                        "tokenizers[0].max_length: must be 1 to 65536, is 0"));
  EXPECT_TRUE(absl::StrContains(
      error_with("max_images: 4", "max_images: 4 max_sequence_length: 9"),
      "limits.max_sequence_length: must be unset, or the shortest max_length "
      "of the tokenizers, 16"));
}

TEST_F(PackageTest, ChecksTheNamesOfSchedulers) {
  const auto with_choices = [](const std::string& choices) {
    return absl::StrCat(kManifest, "scheduler {", choices, "}");
  };
  const auto choice = [](const std::string& name) {
    return absl::StrCat(" choices { name: \"", name, "\" }");
  };
  EXPECT_TRUE(load(with_choices(choice("DDIM") + choice("DPM++-2M_a.b"))).ok());
  std::string many;
  for (int i = 0; i < 33; ++i) many += choice(absl::StrCat("S", i));
  const std::vector<std::pair<std::string, std::string>> bad = {
      {choice("DDIM") + choice("DDIM"),
       "scheduler.choices[1].name: there is another DDIM"},
      {choice(""), "scheduler.choices[0].name: must be 1 to 64 of"},
      {choice(std::string(65, 'x')), "scheduler.choices[0].name: must be"},
      {choice("a b"), "scheduler.choices[0].name: must be"},
      {choice("\\303\\251"), "scheduler.choices[0].name: must be"},
      {many, "scheduler.choices: must be 0 to 32, is 33"},
  };
  for (const auto& [choices, told] : bad) {
    const absl::Status status = load(with_choices(choices)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << choices;
    EXPECT_TRUE(absl::StrContains(status.message(), told)) << status;
  }
}

TEST_F(PackageTest, FollowsSymbolicLinks) {
  ASSERT_TRUE(load(kManifest).ok());
  const auto blob = std::filesystem::path(testing::TempDir()) / "blob";
  std::filesystem::rename(directory_ / "ferry.txtpb", blob);
  std::filesystem::create_symlink(blob, directory_ / "ferry.txtpb");
  const auto link = std::filesystem::path(testing::TempDir()) / "link";
  std::filesystem::remove(link);
  std::filesystem::create_directory_symlink(directory_, link);
  EXPECT_TRUE(Package::load(link).ok());
}

}  // namespace
}  // namespace ferry
