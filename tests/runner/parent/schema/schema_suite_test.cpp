#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/schema/schema.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// Installed by Debian's json-schema-test-suite package.
constexpr auto kSuite = "/usr/share/json-schema-test-suite/tests/draft7";

constexpr int kTestsThatApply = 329;

/// True if loading rejects the schema because it is outside our subset.
bool is_outside_subset(const Diagnostic& error) {
  constexpr std::string_view kReasons[] = {"the validator does not support the keyword",
                                           "there is no schema at", "$id must be",
                                           "only a file has an $id", "the default is not valid"};
  return std::ranges::any_of(kReasons, [&](std::string_view reason) {
    return error.message.find(reason) != error.message.npos;
  });
}

TEST(SchemaSuite, OfficialTestsOfTheSupportedSubsetPass) {
  if (!fs::is_directory(kSuite)) GTEST_SKIP() << "json-schema-test-suite is not installed";
  int ran = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(kSuite)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream stream(entry.path());
    for (const Json& group : Json::parse(stream)) {
      const std::string name =
          entry.path().filename().string() + ": " + group["description"].get<std::string>();
      const std::string text = group["schema"].dump();
      const SchemaFile file{"a.schema.json", text};
      const auto schemas = SchemaSet::load({&file, 1});
      if (!schemas) {
        for (const Diagnostic& error : schemas.errors())
          EXPECT_TRUE(is_outside_subset(error)) << name << ": " << error.message;
        continue;
      }
      for (const Json& test : group["tests"]) {
        Value value = from_json(test["data"]);
        EXPECT_EQ(schemas->validate(value, "a.schema.json").empty(), test["valid"].get<bool>())
            << name << ": " << test["description"] << " " << text;
        ++ran;
      }
    }
  }
  EXPECT_GE(ran, kTestsThatApply);
  RecordProperty("tests", ran);
}

}  // namespace
}  // namespace runner
