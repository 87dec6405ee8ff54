#include "runner/parent/config/compose.h"

#include <gtest/gtest.h>

#include "runner/parent/config/yaml_writer.h"
#include "tests/support/memory_file_system.h"

namespace runner {
namespace {

/// The recipe "main" after `words`; "nothing" if it does not compose.
std::string composed(const MemoryFileSystem& files, const std::vector<std::string>& words) {
  Sources sources;
  const ComposeRequest request{.recipe = "main", .overrides = {}, .config_folders = {"./recipes"}};
  auto composer = Composer::open(request, files, kWithoutSchema, sources);
  EXPECT_TRUE(composer);
  const auto composition = compose_leniently(*composer, words, sources);
  return composition ? write_yaml(composition->unresolved) : "nothing";
}

MemoryFileSystem files() {
  MemoryFileSystem files;
  files.files = {{"recipes/main.yaml", "defaults: [{db: '?\?\?'}]\na: 1\naliases: {short: a}\n"},
                 {"recipes/db/small.yaml", "size: 1\n"},
                 {"recipes/db/large.yaml", "size: 9\n"},
                 {"recipes/db/broken.yaml", "size: [\n"}};
  return files;
}

const std::string kRest = "aliases:\n  short: a\n";

TEST(ComposeLeniently, ValidOverridesAreApplied) {
  EXPECT_EQ(composed(files(), {"db=small", "short=2"}), "db:\n  size: 1\na: 2\n" + kRest);
}

TEST(ComposeLeniently, BrokenOverridesAreSkipped) {
  EXPECT_EQ(composed(files(), {"=", "db=[", "nosuch=1", "db=small", "a.b=3", "a=2", "+a=4",
                               "~nosuch", "+x/y=1"}),
            "db:\n  size: 1\na: 2\n" + kRest);
}

TEST(ComposeLeniently, SweepsCountAsTheirFirstValue) {
  EXPECT_EQ(composed(files(), {"db=large,small", "a=choice(5,6)", "a=range(1,3)"}),
            "db:\n  size: 9\na: 5\n" + kRest);
}

TEST(ComposeLeniently, OptionWithABrokenFileIsLeftOut) {
  EXPECT_EQ(composed(files(), {"db=small", "+db@other=broken", "a=2"}),
            "db:\n  size: 1\na: 1\n" + kRest);
}

TEST(ComposeLeniently, BrokenRecipeYieldsNothing) {
  EXPECT_EQ(composed(files(), {"a=2"}), "nothing");
  MemoryFileSystem broken;
  broken.files = {{"recipes/main.yaml", "a: [\n"}};
  EXPECT_EQ(composed(broken, {}), "nothing");
}

}  // namespace
}  // namespace runner
