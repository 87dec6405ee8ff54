#include "runner/parent/config/defaults_item.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/config/yaml_reader.h"

namespace runner {
namespace {

/// The result of merging `over` into `base`, as JSON, or the first error message.
std::string merged(const std::string& base, const std::string& over) {
  Sources sources;
  auto result = read_yaml(sources.add("base.yaml", base));
  auto more = read_yaml(sources.add("over.yaml", over));
  Diagnostics errors;
  merge(*result, *std::move(more), "", errors);
  return errors.empty() ? to_json(*result).dump() : errors.front().message;
}

TEST(Merge, LaterValueWins) {
  EXPECT_EQ(merged("{a: 1, b: {c: 2, d: 3}}", "{b: {c: 4}, e: 5}"),
            R"({"a":1,"b":{"c":4,"d":3},"e":5})");
}

TEST(Merge, MissingMarkerDoesNotOverwriteAValue) {
  EXPECT_EQ(merged("{a: 1, b: [2], c: {d: 3}}", R"({a: "???", b: "???", c: "???"})"),
            R"({"a":1,"b":[2],"c":{"d":3}})");
  EXPECT_EQ(merged("{c: {d: 3}}", R"({c: {d: "???"}})"), R"({"c":{"d":3}})");
}

TEST(Merge, MissingMarkerRemainsWithoutAValue) {
  EXPECT_EQ(merged("{a: null}", R"({a: "???", b: "???"})"), R"({"a":"???","b":"???"})");
  EXPECT_EQ(merged(R"({a: "???"})", "{a: 1}"), R"({"a":1})");
}

TEST(Merge, NewKindSetsTheOrigin) {
  const auto source_of = [](const std::string& over) {
    Sources sources;
    auto result = read_yaml(sources.add("base.yaml", "{kind: adamw, rate: 1}"));
    auto more = read_yaml(sources.add("over.yaml", over));
    Diagnostics errors;
    merge(*result, *std::move(more), "", errors);
    return result->where.source->name;
  };
  EXPECT_EQ(source_of("{kind: sgd}"), "over.yaml");
  EXPECT_EQ(source_of("{kind: adamw, rate: 2}"), "base.yaml");
  EXPECT_EQ(source_of("{rate: 2}"), "base.yaml");
}

TEST(Merge, ListsAndMappingsDoNotReplaceOneAnother) {
  EXPECT_EQ(merged("{a: [1]}", "{a: {b: 1}}"), "a mapping cannot replace a list");
  EXPECT_EQ(merged("{a: {b: 1}}", "{a: [1]}"), "a list cannot replace a mapping");
  EXPECT_EQ(merged("{a: '${b}'}", "{a: {c: 1}}"),
            "a mapping cannot be merged into an interpolation");
}

}  // namespace
}  // namespace runner
