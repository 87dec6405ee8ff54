// A scalar, a list or null instead of a mapping, for each top-level key and each group that a
// recipe chooses: an error at the value says what is expected.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"

namespace {

using Json = nlohmann::ordered_json;

/// Chooses a group for each stage except the evaluation.
constexpr char kRecipe[] =
    "schema: 1\n"
    "defaults: [{data: image_folder}, {model: tiny}, {memory: auto}, {train: from_scratch}, "
    "_self_]\n";

class MisplacedScalars : public testing::TestWithParam<std::string> {};

TEST_P(MisplacedScalars, AreRejectedAtTheirLocation) {
  const TemporaryFolder folder;
  for (const std::string value : {"3", "x", "true", "[1]", "null"}) {
    std::string recipe = kRecipe;
    if (GetParam() != "data") recipe += "data: {root: photos}\n";
    recipe += GetParam() + ": " + value + "\n";
    folder.write("r.yaml", recipe);
    const Ended ended = retort("validate r.yaml --json", folder.path());
    EXPECT_EQ(ended.exit, 78) << recipe << ended.err;
    const Json document = Json::parse(ended.out, nullptr, false);
    ASSERT_TRUE(document.is_object()) << ended.out << ended.err;
    bool is_found = false;
    for (const Json& error : document.value("errors", Json::array())) {
      if (error.value("pointer", "") != "/" + GetParam()) continue;
      EXPECT_THAT(error.value("message", ""), testing::HasSubstr("mapping")) << recipe;
      EXPECT_EQ(error.value("file", ""), "r.yaml") << error.dump();
      EXPECT_EQ(error.value("line", 0), GetParam() == "data" ? 3 : 4) << error.dump();
      EXPECT_EQ(error.value("column", 0), GetParam().size() + 3) << error.dump();
      is_found = true;
    }
    EXPECT_TRUE(is_found) << recipe << ended.out;
  }
}

INSTANTIATE_TEST_SUITE_P(Keys, MisplacedScalars,
                         testing::Values("data", "model", "memory", "train", "evaluate", "run",
                                         "sweep", "vars", "aliases"),
                         [](const auto& info) { return info.param; });

}  // namespace
