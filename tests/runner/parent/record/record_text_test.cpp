#include "runner/parent/record/record_text.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

TEST(RecordText, IsEmptyIfTheFileIsMissing) {
  const TemporaryFolder folder;
  EXPECT_EQ(record_text(folder.path() / "recipe.yaml"), "");
  EXPECT_EQ(record_from_yaml(folder.path() / "recipe.yaml"), nullptr);
}

TEST(RecordText, IsReadAsYaml) {
  const TemporaryFolder folder;
  folder.write("recipe.yaml", "train: {epochs: 3}\n");
  EXPECT_EQ(record_text(folder.path() / "recipe.yaml"), "train: {epochs: 3}\n");
  EXPECT_EQ(record_from_yaml(folder.path() / "recipe.yaml")["train"]["epochs"], 3);
  folder.write("recipe.yaml", "train: {epochs: 3\n");
  EXPECT_EQ(record_from_yaml(folder.path() / "recipe.yaml"), nullptr);
}

}  // namespace
}  // namespace runner
