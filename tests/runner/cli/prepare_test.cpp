#include "runner/cli/prepare.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

Result<Composition> composed(const std::string& text, bool strict) {
  const TemporaryFolder folder;
  folder.write("a.yaml", text);
  NamedRecipe named;
  named.name = (folder.path() / "a.yaml").string();
  named.strict = strict;
  static Sources sources;
  const SchemaSet schemas = shipped_schemas();
  return open_recipe(named, schemas, sources)->compose_once();
}

TEST(Prepare, StrictTakesWarningsForErrors) {
  EXPECT_EQ(composed("seed: 010\n", false)->warnings.size(), 1u);
  const auto strict = composed("seed: 010\n", true);
  ASSERT_FALSE(strict);
  EXPECT_EQ(strict.errors().front().code, ErrorCode::kYamlTrap);
  EXPECT_EQ(strict.errors().front().severity, Severity::kError);
}

TEST(Prepare, StrictTakesWhatIsNotWarnedOf) { EXPECT_TRUE(composed("seed: 10\n", true)); }

}  // namespace
}  // namespace runner
