#include "runner/cli/console.h"

#include <algorithm>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace runner {
namespace {

TEST(Console, AHundredDiagnosticsArePrintedAndTheOthersCounted) {
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
  EXPECT_EQ(report(console, Diagnostics(102, {ErrorCode::kUnknownKey, {}, "", "wrong", ""})), ExitCode::kBadRecipe);
  EXPECT_EQ(nlohmann::json::parse(out.str())["diagnostics"].size(), 102u);
}

}  // namespace
}  // namespace runner
