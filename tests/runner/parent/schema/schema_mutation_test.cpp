#include <random>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/schema/schema_json.h"
#include "tests/support/schema_generator.h"
#include "tests/support/schema_texts.h"

namespace runner {
namespace {

/// Changes, removes or duplicates a few bytes.
std::string mutated(std::string text, std::mt19937& random) {
  constexpr std::string_view kBytes = "{}[]\":,#/x01-.e\xff\\";
  for (unsigned i = 1 + random() % 4; i > 0 && !text.empty(); --i) {
    const std::size_t at = random() % text.size();
    switch (random() % 4) {
      case 0:
        text[at] = kBytes[random() % kBytes.size()];
        break;
      case 1:
        text.erase(at, 1 + random() % 8);
        break;
      case 2:
        text.insert(at, text.substr(random() % text.size(), random() % 24));
        break;
      default:
        text.insert(at, 1, kBytes[random() % kBytes.size()]);
        break;
    }
  }
  return text;
}

TEST(SchemaMutation, DamagedSchemaIsRejectedOrWorks) {
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 100; ++round) {
    std::vector<SchemaFile> files(embedded_schemas().begin(), embedded_schemas().end());
    SchemaFile& damaged = files[random() % files.size()];
    const std::string text = mutated(std::string(damaged.text), random);
    damaged.text = text;
    const auto schemas = SchemaSet::load(files);
    if (!schemas) {
      ++refused;
      for (const Diagnostic& error : schemas.errors()) EXPECT_EQ(error.code, ErrorCode::kBadSchema);
      continue;
    }
    Value recipe =
        written(R"({"schema": 1, "train": {"kind": "train.supervised"}, "a": {"kind": 1}})");
    schemas->validate(recipe);
  }
  EXPECT_GT(refused, 20);
}

TEST(SchemaMutation, ParserAgreesWithNlohmannJson) {
  std::mt19937 random(5);
  int broken = 0;
  for (int round = 0; round < 300; ++round) {
    std::string text(embedded_schemas()[random() % embedded_schemas().size()].text);
    if (round >= 30) text = mutated(std::move(text), random);
    const auto expected = nlohmann::ordered_json::parse(text, nullptr, false);
    const SchemaJson read = read_schema_json(text);
    if (read.problem.ends_with("appears twice")) continue;  // the library accepts this
    EXPECT_EQ(read.problem.empty(), !expected.is_discarded()) << read.problem << "\n" << text;
    if (!read.problem.empty()) ++broken;
    else EXPECT_EQ(read.root, expected) << text;
  }
  EXPECT_GT(broken, 50);
}

TEST(SchemaMutation, AnyValueIsRejectedOrFilledInOnce) {
  const SchemaSet schemas = small_schemas();
  const std::string recipe =
      R"({"schema": 1, "name": "a", "device": {"select": "cpu"}, "threads": 2, "data": {"kind": "data.folder", "root": "r"},
      "train": {"kind": "train.fit", "epochs": 2, "foreach": {"n": [1]}, "optimizer": {"kind": "sgd", "nesterov": true}}})";
  std::mt19937 random(11);
  int valid = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto json = nlohmann::ordered_json::parse(mutated(recipe, random), nullptr, false);
    if (json.is_discarded()) continue;
    Value value = from_json(json);
    if (!schemas.validate(value).empty()) continue;
    ++valid;
    const std::string once =
        to_json(value).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    EXPECT_TRUE(schemas.validate(value).empty()) << once;
    EXPECT_EQ(to_json(value).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace),
              once);
  }
  EXPECT_GT(valid, 20);
}

TEST(SchemaMutation, LookupAcceptsPathsOfAnyShape) {
  const SchemaSet schemas = small_schemas();
  SchemaGenerator generator(3);
  constexpr const char* kKeys[] = {"train",  "optimizer", "kind",   "seed",
                                   "device", "",          "select", "data"};
  for (int i = 0; i < 1000; ++i) {
    std::vector<std::string> path;
    for (auto k = generator.below(5); k > 0; --k) path.push_back(kKeys[generator.below(8)]);
    auto recipe = nlohmann::ordered_json::object();
    for (const char* key : kKeys)
      recipe[key] = nlohmann::ordered_json::parse(generator.value().dump());
    recipe["train"] = {{"kind", "train.fit"},
                       {"optimizer", nlohmann::ordered_json::parse(generator.value().dump())}};
    schemas.declared(from_json(recipe), path);
  }
}

}  // namespace
}  // namespace runner
