#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "runner/parent/schema/schema.h"
#include "tests/support/schema_generator.h"

namespace runner {
namespace {

bool valijson_accepts(const nlohmann::json& schema_json, const std::vector<nlohmann::json>& values,
                      std::vector<bool>& verdicts) {
  valijson::Schema schema;
  valijson::SchemaParser parser(valijson::SchemaParser::kDraft7);
  parser.populateSchema(valijson::adapters::NlohmannJsonAdapter(schema_json), schema);
  for (const auto& value : values) {
    verdicts.push_back(valijson::Validator().validate(
        schema, valijson::adapters::NlohmannJsonAdapter(value), nullptr));
  }
  return true;
}

// A second opinion on schemas that were not written by hand. Values contain no numbers such as 2.0,
// which valijson does not accept as integers.
TEST(SchemaValijson, AgreesOnGeneratedCases) {
  SchemaGenerator generator(20260801);
  int accepted = 0, refused = 0;
  for (int i = 0; i < 1000; ++i) {
    const nlohmann::json schema = generator.schema();
    std::vector<nlohmann::json> values;
    for (int k = 0; k < 5; ++k) values.push_back(generator.value());
    const std::string text = schema.dump();
    const SchemaFile file{"a.schema.json", text};
    const auto ours = SchemaSet::load({&file, 1});
    ASSERT_TRUE(ours) << text << "\n" << ours.errors().front().message;
    std::vector<bool> verdicts;
    valijson_accepts(schema, values, verdicts);
    for (std::size_t k = 0; k < values.size(); ++k) {
      Value value = from_json(nlohmann::ordered_json::parse(values[k].dump()));
      EXPECT_EQ(ours->validate(value, "a.schema.json").empty(), verdicts[k]) << text << "\n"
                                                                             << values[k];
      (verdicts[k] ? accepted : refused) += 1;
    }
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace runner
