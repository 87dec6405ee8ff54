#include "runner/shared/error/diagnostic.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace runner {
namespace {

std::string printed(const Diagnostic& diagnostic, bool color = false) {
  std::ostringstream out;
  print(out, diagnostic, color);
  return out.str();
}

TEST(Diagnostic, PointsAtItsLocationWithCaretHelpAndNotes) {
  Sources sources;
  const auto& file = sources.add("recipes/a.yaml", "train:\n  epoch: 3\n");
  const auto& override = sources.add("override 2", "train.epoch=3");
  const Diagnostic diagnostic{ErrorCode::kUnknownKey,   {&file, 2, 3},
                              "/train/epoch",           "unknown key 'epoch'",
                              "did you mean 'epochs'?", {{{&override, 1, 1}, "set here"}}};
  EXPECT_EQ(printed(diagnostic),
            "recipes/a.yaml:2:3: error[E0301]: unknown key 'epoch' [/train/epoch]\n"
            "  2 |   epoch: 3\n"
            "    |   ^\n"
            "  help: did you mean 'epochs'?\n"
            "  override 2:1:1: note: set here\n");
}

TEST(Diagnostic, IsOneLineWithoutALocation) {
  EXPECT_EQ(printed({ErrorCode::kUnknownVerb, {}, "", "unknown verb 'rum'", ""}),
            "error[E0502]: unknown verb 'rum'\n");
}

TEST(Diagnostic, CaretCountsCharactersNotBytes) {
  Sources sources;
  const auto& file = sources.add("a.yaml", "ä: ö\n");
  EXPECT_THAT(printed({ErrorCode::kWrongType, {&file, 1, 5}, "", "m", ""}),
              testing::HasSubstr("  1 | ä: ö\n    |    ^\n"));
}

TEST(Diagnostic, ControlCharactersDoNotReachTheTerminal) {
  Sources sources;
  const auto& file = sources.add("a\x1b[2J.yaml", "k: \x1b[31m\n");
  EXPECT_EQ(
      printed({ErrorCode::kWrongType, {&file, 1, 1}, "/\x07", "bad \x1b", "\x1b"}).find('\x1b'),
      std::string::npos);
}

TEST(Diagnostic, LongLineIsShortenedAroundTheCaret) {
  Sources sources;
  const auto& file = sources.add("a.yaml", std::string(100'000, 'x') + "!");
  const auto text = printed({ErrorCode::kWrongType, {&file, 1, 100'001}, "", "m", ""});
  EXPECT_LT(text.size(), 400u);
  EXPECT_THAT(text, testing::HasSubstr("x!\n"));
}

TEST(Diagnostic, SortsBySourceThenLocation) {
  Sources sources;
  const auto& first = sources.add("a", "");
  const auto& second = sources.add("b", "");
  Diagnostics all = {{ErrorCode::kUsage, {}, "", "4", ""},
                     {ErrorCode::kUsage, {&second, 1, 1}, "", "3", ""},
                     {ErrorCode::kUsage, {&first, 2, 1}, "", "2", ""},
                     {ErrorCode::kUsage, {&first, 1, 9}, "", "1", ""}};
  sort_by_place(all, sources);
  std::string order;
  for (const auto& diagnostic : all) order += diagnostic.message;
  EXPECT_EQ(order, "1234");
}

TEST(Diagnostic, WarningsDoNotFail) {
  const Diagnostic warning{ErrorCode::kWrongType, {}, "", "m", "", {}, Severity::kWarning};
  EXPECT_EQ(exit_code({warning}), ExitCode::kDone);
  EXPECT_EQ(exit_code({warning, {ErrorCode::kMissingFolder, {}, "", "m", ""}}),
            ExitCode::kMissingInput);
}

TEST(Diagnostic, JsonHasEveryField) {
  Sources sources;
  const auto& file = sources.add("a.yaml", "k: v");
  EXPECT_EQ(
      to_json({ErrorCode::kWrongType, {&file, 1, 4}, "/k", "m", "h", {{{&file, 1, 1}, "n"}}})
          .dump(),
      R"({"severity":"error","code":"E0302","message":"m","pointer":"/k","file":"a.yaml","line":1,"column":4,)"
      R"("help":"h","notes":[{"message":"n","file":"a.yaml","line":1,"column":1}]})");
}

}  // namespace
}  // namespace runner
