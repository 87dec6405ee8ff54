// Validates files against schemas/editor as editors do: as written, using a third-party validator.

#include "runner/parent/schema/published_schema.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "runner/parent/config/yaml_reader.h"
#include "tests/support/schema_texts.h"
#include "tests/support/text_case.h"

namespace runner {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = RETORT_SOURCE_DIR;

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

/// The errors in `yaml` according to the schema in the file `form`; empty if it is valid.
std::string complaints(const fs::path& form, const std::string& yaml) {
  static std::map<fs::path, std::unique_ptr<valijson::Schema>> forms;
  auto& schema = forms[form];
  if (!schema) {
    schema = std::make_unique<valijson::Schema>();
    const auto json = nlohmann::json::parse(text_of(form));
    valijson::SchemaParser(valijson::SchemaParser::kDraft7)
        .populateSchema(valijson::adapters::NlohmannJsonAdapter(json), *schema);
  }
  Sources sources;
  const auto value = read_yaml(sources.add("file.yaml", yaml));
  if (!value) return "no YAML: " + value.errors().front().message;
  const auto json = nlohmann::json::parse(to_json(*value).dump());
  valijson::ValidationResults results;
  if (valijson::Validator().validate(*schema, valijson::adapters::NlohmannJsonAdapter(json),
                                     &results))
    return "";
  std::string text;
  for (const auto& error : results) {
    for (const std::string& step : error.context) text += step;
    text += ": " + error.description + '\n';
  }
  return text;
}

TEST(EditorSchema, ShippedEditorSchemasMatchTheSchemas) {
  const auto schemas = SchemaSet::load(embedded_schemas());
  ASSERT_TRUE(schemas);
  std::size_t shipped = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "schemas/editor"))
    shipped += entry.is_regular_file();
  EXPECT_EQ(shipped, editor_groups(*schemas).size()) << "scripts/editor-schemas writes them again";
  for (const std::string& group : editor_groups(*schemas)) {
    const auto form = editor_schema(*schemas, group);
    ASSERT_TRUE(form) << group;
    EXPECT_TRUE(text_of(kRoot / "schemas/editor" / (group + ".json")) == form->dump() + '\n')
        << "schemas/editor/" << group
        << ".json is out of date: scripts/editor-schemas writes it again";
  }
}

TEST(EditorSchema, EveryShippedFileMatchesTheEditorSchemaNamedInItsFirstLine) {
  const std::string start = "# yaml-language-server: $schema=";
  std::size_t files = 0;
  for (const char* folder : {"recipes", "experiments"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      if (entry.path().extension() != ".yaml") continue;
      ++files;
      const std::string text = text_of(entry.path());
      ASSERT_TRUE(text.starts_with(start))
          << entry.path() << " does not name its form on its first line";
      const std::string named = text.substr(start.size(), text.find('\n') - start.size());
      const fs::path form = (entry.path().parent_path() / named).lexically_normal();
      ASSERT_TRUE(fs::exists(form)) << entry.path() << " names " << form;
      const fs::path group = entry.path().parent_path().lexically_relative(kRoot / "recipes");
      const bool is_recipe = group == "." || *group.begin() == ".." ||
                             text.find("\n# @package _global_\n") != text.npos;
      const std::string below =
          group == "launcher" ? "sweep/launcher" : group.string();  // where its package puts it
      EXPECT_EQ(form, kRoot / "schemas/editor" / (is_recipe ? "recipe.json" : below + ".json"));
      EXPECT_EQ(complaints(form, text), "") << entry.path();
    }
  }
  EXPECT_GT(files, 50u);
}

class EditorCases : public testing::TestWithParam<TextCase> {};

TEST_P(EditorCases, Check) {
  for (const auto& [section, yaml] : GetParam().sections) {
    const std::string group = section.substr(section.find(' ') + 1);
    const std::string found = complaints(kRoot / "schemas/editor" / (group + ".json"), yaml);
    if (section.starts_with("accepted ")) EXPECT_EQ(found, "");
    else EXPECT_NE(found, "");
  }
}

INSTANTIATE_TEST_SUITE_P(Text, EditorCases,
                         testing::ValuesIn(read_cases(kRoot / "tests/cases/editor/files.case")),
                         [](const auto& info) { return test_name(info.param); });

TEST(EditorSchema, UnknownGroupSuggestsTheNearestGroup) {
  const SchemaSet schemas = small_schemas();
  const auto help = [&](const std::string& name) {
    return told(editor_schema(schemas, name).errors()).front();
  };
  EXPECT_EQ(help("trian"), "E0206 : there is no editor schema 'trian' (did you mean 'train'?)");
  EXPECT_EQ(help("zzz"),
            "E0206 : there is no editor schema 'zzz' (available: recipe, data, train, "
            "sweep/launcher, train/optimizer)");
}

}  // namespace
}  // namespace runner
