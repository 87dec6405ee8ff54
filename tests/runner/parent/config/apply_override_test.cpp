#include "runner/parent/config/apply_override.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace runner {
namespace {

TEST(ApplyOverride, KeysOfALargeMappingAreFoundAfterChangesToOthers) {
  Sources sources;
  std::vector<Override> overrides;
  const auto write = [&](const std::string& word) {
    overrides.push_back(*parse_override(sources.add("override", word)));
  };
  nlohmann::ordered_json expected;
  for (int i = 0; i < 50; ++i) {
    write("+vars.k" + std::to_string(i) + "=" + std::to_string(i));
    expected["k" + std::to_string(i)] = i;
  }
  write("~vars.k7");
  write("vars.k8=eight");
  write("+vars.k7=7");
  write("++vars.k9={a: 1}");
  write("+vars.k9.b=2");
  write("++vars={k10: ten, new: 3}");
  write("vars.k49=forty-nine");
  write("vars.new=4");
  expected.erase("k7");
  expected["k8"] = "eight";
  expected["k7"] = 7;
  expected["k9"] = {{"a", 1}, {"b", 2}};
  expected["k10"] = "ten";
  expected["k49"] = "forty-nine";
  expected["new"] = 4;

  Value recipe{Value::Map{}};
  const Diagnostics errors = apply_overrides(recipe, overrides, kWithoutSchema);
  EXPECT_TRUE(errors.empty()) << errors.front().message;
  EXPECT_EQ(to_json(*recipe.find("vars")), expected);
}

TEST(ApplyOverride, MappingThatReplacesALargeOneHasItsOwnKeys) {
  Sources sources;
  std::vector<Override> overrides;
  for (int i = 0; i < 80; ++i) {
    // Both mappings have the same 40 keys, but in opposite orders.
    const std::string key = "+vars.k" + std::to_string(i < 40 ? i : 79 - i);
    overrides.push_back(*parse_override(sources.add("override", key + "=" + std::to_string(i))));
    if (i == 39) overrides.push_back(*parse_override(sources.add("override", "~vars")));
  }
  overrides.push_back(*parse_override(sources.add("override", "vars.k0=first")));
  Value recipe{Value::Map{}};
  const Diagnostics errors = apply_overrides(recipe, overrides, kWithoutSchema);
  EXPECT_TRUE(errors.empty()) << errors.front().message;
  ASSERT_EQ(recipe.find("vars")->map()->size(), 40U);
  EXPECT_EQ(recipe.find("vars")->map()->back().key, "k0");
  EXPECT_EQ(*recipe.find("vars")->find("k0")->text(), "first");
}

}  // namespace
}  // namespace runner
