#include "runner/parent/schema/option_listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/schema_texts.h"

namespace runner {
namespace {

using testing::HasSubstr;

TEST(KindReference, EveryFamilyIsASectionAndEveryKindAnOptionTable) {
  const std::string text = kinds_markdown(small_schemas());
  EXPECT_THAT(
      text,
      HasSubstr(
          "# data\n\n## data.folder\n\nReads a folder.\n\n```text\nout  train: dataset\n```\n"));
  EXPECT_THAT(text, HasSubstr("| `root` | a string | required | The folder to read. |\n"));
  EXPECT_THAT(text, HasSubstr("| `size` | an integer from 1 to 4096 (pixels) | `96` | Side. |\n"));
  EXPECT_THAT(text, HasSubstr("A later run reuses its results by default.\n"));
}

TEST(KindReference, SubMappingKindsAreInTheSectionOfTheirFamily) {
  const std::string text = kinds_markdown(small_schemas());
  const auto train = text.find("\n# train\n");
  ASSERT_NE(train, text.npos);
  EXPECT_GT(text.find("## train/optimizer/sgd"), train);
  EXPECT_LT(text.find("# recipe\n"), text.find("\n# data\n"));
  EXPECT_THAT(text, HasSubstr("| `optimizer` | a mapping of kind adam or sgd | `{}` | How. |\n"));
}

TEST(KindReference, MarkdownCharactersAreEscaped) {
  const SchemaTexts texts = schema_texts({{"data/star.schema.json", R"({
    "$id": "data/star.schema.json", "title": "data.star", "description": "Stars.", "x-version": 1,
    "type": "object", "additionalProperties": false,
    "properties": {"kind": {"const": "data.star"},
                   "match": {"type": "string", "description": "a|b, *.bias or <name>"}}})"}});
  const auto schemas = SchemaSet::load(texts.files);
  ASSERT_TRUE(schemas);
  EXPECT_THAT(kinds_markdown(*schemas), HasSubstr("| a\\|b, \\*.bias or \\<name> |\n"));
}

}  // namespace
}  // namespace runner
