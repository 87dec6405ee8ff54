// Names of runs, stages and items become names of files and folders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/parent/cli/prepare.h"

namespace runner {
namespace {

const std::vector<std::string> kGood = {"a", "A-b_c.1", "9", "-", std::string(120, 'x')};
const std::vector<std::string> kBad = {"",
                                       ".",
                                       "..",
                                       ".a",
                                       "a/b",
                                       "../a",
                                       "/etc",
                                       "a\\b",
                                       "a b",
                                       "a\n",
                                       "\na",
                                       "a\nb",
                                       "a\t",
                                       "ä",
                                       "a\u200b",
                                       "a:b",
                                       "~",
                                       std::string(121, 'x'),
                                       std::string("a\0b", 3)};

Diagnostics faults(Value recipe) {
  static const SchemaSet& schemas = shipped_schemas();
  return schemas.validate(recipe);
}

Value text(const std::string& value) { return {value, {}}; }
Value map(Value::Map entries) { return {std::move(entries), {}}; }

Diagnostics faults_of_run(const std::string& name) {
  return faults(map({{"schema", {}, {std::int64_t{1}, {}}}, {"name", {}, text(name)}}));
}

/// Only the errors about the stage's name.
Diagnostics faults_of_stage(const std::string& name) {
  Diagnostics found =
      faults(map({{"schema", {}, {std::int64_t{1}, {}}},
                  {name, {}, map({{"kind", {}, text("evaluate.classification")}})}}));
  std::erase_if(found, [](const Diagnostic& one) { return one.code != ErrorCode::kBadName; });
  return found;
}

TEST(Names, RunNamesMustBeFileNames) {
  for (const std::string& name : kGood) EXPECT_TRUE(faults_of_run(name).empty()) << name;
  for (const std::string& name : kBad) EXPECT_FALSE(faults_of_run(name).empty()) << name;
}

TEST(Names, StageNamesMustBeFileNames) {
  for (const std::string& name : kGood) EXPECT_TRUE(faults_of_stage(name).empty()) << name;
  for (const std::string& name : kBad) EXPECT_FALSE(faults_of_stage(name).empty()) << name;
}

}  // namespace
}  // namespace runner
