#include "runner/parent/config/config_files.h"

#include <gtest/gtest.h>

#include "tests/support/memory_file_system.h"

namespace runner {
namespace {

TEST(ConfigFiles, AreReadUpToFourMebibytes) {
  MemoryFileSystem files;
  const auto padded = [](std::size_t size) { return "a: 1\n#" + std::string(size - 6, ' '); };
  files.files["largest.yaml"] = padded(4u << 20);
  files.files["larger.yaml"] = padded((4u << 20) + 1);
  Sources sources;
  Diagnostics errors;
  ConfigFiles configs(files, {"."}, sources);
  EXPECT_NE(configs.read("largest.yaml", errors), nullptr);
  EXPECT_TRUE(errors.empty());
  EXPECT_EQ(configs.read("larger.yaml", errors), nullptr);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].code, ErrorCode::kFileTooLarge);
}

TEST(ConfigFiles, NearestFolderWithAConfigWins) {
  MemoryFileSystem files;
  files.files["near/a.yaml"] = files.files["far/a.yaml"] = files.files["far/b.yaml"] = "x: 1\n";
  Sources sources;
  const ConfigFiles configs(files, {"near", "far"}, sources);
  EXPECT_EQ(configs.find("a"), "near/a.yaml");
  EXPECT_EQ(configs.find("b"), "far/b.yaml");
  EXPECT_EQ(configs.find("c"), std::nullopt);
}

}  // namespace
}  // namespace runner
