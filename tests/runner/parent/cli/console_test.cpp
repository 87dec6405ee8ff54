#include "runner/parent/cli/console.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/descriptor.h"

namespace runner {
namespace {

TEST(Console, AtMostAHundredDiagnosticsArePrinted) {
  std::ostringstream out, err;
  Console console{.out = out, .err = err};
  report(console, Diagnostics(102, {ErrorCode::kUnknownKey, {}, "", "wrong", ""}));
  const std::string text = err.str();
  EXPECT_EQ(std::ranges::count(text, '\n'), 101);
  EXPECT_TRUE(text.ends_with("... and 2 more; --json shows all\n")) << text;
}

TEST(Console, JsonHoldsEveryDiagnostic) {
  std::ostringstream out, err;
  Console console{.out = out, .err = err, .json = true};
  EXPECT_EQ(report(console, Diagnostics(102, {ErrorCode::kUnknownKey, {}, "", "wrong", ""})),
            ExitCode::kBadRecipe);
  EXPECT_EQ(nlohmann::json::parse(out.str())["errors"].size(), 102u);
}

TEST(Console, JsonIsOneDocumentWithTheWarningsBeforeIt) {
  std::ostringstream out, err;
  Console console{.out = out, .err = err, .json = true};
  warn(console, {{ErrorCode::kYamlTrap, {}, "", "careful", "", {}, Severity::kWarning}});
  print_result(console, "validate/1", {{"valid", true}});
  const auto document = nlohmann::json::parse(out.str());
  EXPECT_EQ(document["schema"], "validate/1");
  EXPECT_EQ(document["result"]["valid"], true);
  EXPECT_EQ(document["warnings"][0]["message"], "careful");
  EXPECT_FALSE(document.contains("errors"));
  EXPECT_EQ(err.str(), "");
}

TEST(Console, JsonLinesAreOneLineEach) {
  std::ostringstream out, err;
  Console console{.out = out, .err = err, .json = true, .json_lines = true};
  report(console, Diagnostics(2, {ErrorCode::kUnknownKey, {}, "", "wrong", ""}));
  EXPECT_EQ(out.str().find('\n'), out.str().size() - 1);
}

TEST(Console, NonTerminalsGetNoColor) {
  setenv("TERM", "xterm", 1);
  unsetenv("NO_COLOR");
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Descriptor read(ends[0]), write(ends[1]);
  EXPECT_FALSE(wants_color(*write));
  EXPECT_FALSE(wants_color(-1));
}

}  // namespace
}  // namespace runner
