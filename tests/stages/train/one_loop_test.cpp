#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include <gmock/gmock.h>

namespace {

/// The sources below stages/ whose text matches.
std::set<std::string> sources_with(const std::string& pattern) {
  const auto root = std::filesystem::path(RETORT_SOURCE_DIR) / "stages";
  const std::regex expression(pattern);
  std::set<std::string> result;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".cu") continue;
    std::ifstream file(entry.path());
    const std::string text(std::istreambuf_iterator<char>(file), {});
    if (std::regex_search(text, expression)) result.insert(std::filesystem::relative(entry.path(), root));
  }
  return result;
}

TEST(OneLoop, BackwardIsCalledInTheTrainerOnly) {
  EXPECT_THAT(sources_with(R"((\.|->|autograd::)backward\()"), testing::ElementsAre("train/trainer.cpp"));
}

TEST(OneLoop, OptimizerIsSteppedInTheTrainerOnly) {
  EXPECT_THAT(sources_with(R"(optim\w*(\.|->)step\()"), testing::ElementsAre("train/trainer.cpp"));
  EXPECT_THAT(sources_with(R"(_fused_(sgd|adam|adamw)_\()"), testing::ElementsAre("train/optimizer.cpp"));
  EXPECT_TRUE(sources_with(R"(torch::optim)").empty());
}

}  // namespace
