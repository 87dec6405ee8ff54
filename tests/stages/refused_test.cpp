#include "tests/support/refused.h"

namespace stages {
namespace {

runner::Result<int> list(bool fails) {
  if (!fails) return 1;
  return runner::Diagnostics{{runner::ErrorCode::kMissingFile, {}, "/root", "no 'a'", "make it"},
                             {runner::ErrorCode::kEmptyClass, {}, "", "no images", ""}};
}
void throw_full() { throw runner::StageError(runner::ErrorCode::kDiskFull, "full").at("/to"); }

TEST(Refused, CodePointerAndFactsOfEachErrorAreCompared) {
  EXPECT_ALL_REFUSED(list(true), {kMissingFile, "/root", {"'a'", "make"}}, {kEmptyClass, ""});
  EXPECT_REFUSED(throw_full(), kDiskFull, "/to");
  const auto is_refused = [](const std::vector<Refusal>& expected) {
    return static_cast<bool>(are_refused(refusals_of([] { return list(true); }), expected));
  };
  const Refusal second{kEmptyClass, ""};
  EXPECT_TRUE(is_refused({{kMissingFile, "/root"}, second}));
  EXPECT_FALSE(is_refused({{kMissingImage, "/root"}, second}));
  EXPECT_FALSE(is_refused({{kMissingFile, ""}, second}));
  EXPECT_FALSE(is_refused({{kMissingFile, "/root", {"'b'"}}, second}));
  EXPECT_FALSE(is_refused({second}));
  EXPECT_TRUE(refusals_of([] { return list(false); }).empty());
}

}  // namespace
}  // namespace stages
