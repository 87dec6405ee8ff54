#include "stages/saved_weights.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "runner/sha256.h"
#include "runner/stage.h"
#include "stages/safetensors.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

/// What reading `reference` is refused with, and the help for it.
std::string refusal(const std::string& reference, runner::ErrorCode code) {
  try {
    read_saved_weights(reference);
  } catch (const runner::StageError& error) {
    EXPECT_EQ(runner::name(error.code), runner::name(code));
    return std::string(error.what()) + " | " + error.help;
  }
  return "it was read";
}

TEST(SavedWeights, SafetensorsFileIsReadWithTheConfigBesideIt) {
  const TemporaryFolder folder;
  write_safetensors(folder / "any.safetensors", {{"b", torch::ones({2}, torch::kHalf)}, {"a", torch::zeros({1, 3})}});
  folder.write("config.json", R"({"hidden_size": 8})");
  const SavedWeights read = read_saved_weights((folder / "any.safetensors").string());
  ASSERT_EQ(read.tensors.size(), 2);
  EXPECT_EQ(read.tensors.begin()->first, "a");
  EXPECT_EQ(read.tensors.at("b").scalar_type(), torch::kHalf);
  EXPECT_EQ(read.config.value().at("hidden_size"), 8);
  EXPECT_EQ(read.where, folder / "any.safetensors");
  EXPECT_EQ(read.sha256, runner::sha256(folder.read("any.safetensors")));
}

TEST(SavedWeights, ConfigThatIsNoObjectIsRefused) {
  const TemporaryFolder folder;
  write_safetensors(folder / "a.safetensors", {{"a", torch::ones(1)}});
  EXPECT_FALSE(read_saved_weights(folder / "a.safetensors").config);
  folder.write("config.json", "[");
  EXPECT_EQ(refusal(folder / "a.safetensors", runner::ErrorCode::kDamagedWeights),
            "'" + (folder / "config.json").string() + "' is no JSON object | fetch or write the file again");
}

}  // namespace
}  // namespace stages
