#include "runner/parent/registry/run_entry.h"

#include <fcntl.h>
#include <sys/file.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/shared/disk/descriptor.h"
#include "tests/support/recorded_runs.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Tags = std::vector<std::string>;

class RunTags : public testing::Test {
 protected:
  RunTags() { write_run(folder_, "run"); }
  std::string mistake(const Result<Tags>& result) const {
    return result ? "none"
                  : name(result.errors().front().code) + " " + result.errors().front().message;
  }
  TemporaryFolder folder_;
};

TEST_F(RunTags, AreAddedRemovedAndSorted) {
  EXPECT_THAT(*read_tags(folder_ / "run"), IsEmpty());
  EXPECT_THAT(*change_tags(folder_ / "run", Tags{"good", "best"}, {}), ElementsAre("best", "good"));
  EXPECT_THAT(*change_tags(folder_ / "run", Tags{"v1.0-a_b", "good"}, Tags{"best", "absent"}),
              ElementsAre("good", "v1.0-a_b"));
  EXPECT_THAT(*read_tags(folder_ / "run"), ElementsAre("good", "v1.0-a_b"));
  EXPECT_EQ(folder_.read("run/tags.json"),
            "{\n  \"schema\": 1,\n  \"tags\": [\n    \"good\",\n    \"v1.0-a_b\"\n  ]\n}\n");
}

TEST_F(RunTags, InvalidNamesAreRejected) {
  for (const std::string tag : {"../x", "", ".x", "a b", "a/b", "a=b", "\xc3\xa9"})
    EXPECT_THAT(mistake(change_tags(folder_ / "run", Tags{tag}, {})),
                testing::EndsWith("is not a valid tag"))
        << tag;
  EXPECT_EQ(mistake(change_tags(folder_ / "run", {}, Tags{"../x"})),
            "E0501 '../x' is not a valid tag");
  EXPECT_EQ(mistake(change_tags(folder_ / "run", Tags{std::string(120, 'a')}, {})), "none");
  EXPECT_NE(mistake(change_tags(folder_ / "run", Tags{std::string(121, 'a')}, {})), "none");
}

TEST_F(RunTags, DamagedFileIsNotOverwritten) {
  for (const std::string text :
       {"", "[", R"({"schema": 2, "tags": []})", R"({"schema": 1, "tags": ["../x"]})"}) {
    folder_.write("run/tags.json", text);
    const std::string expected =
        "E0821 the tags in '" + (folder_ / "run/tags.json").string() + "' cannot be read";
    EXPECT_EQ(mistake(read_tags(folder_ / "run")), expected);
    EXPECT_EQ(mistake(change_tags(folder_ / "run", Tags{"x"}, {})), expected);
    EXPECT_EQ(folder_.read("run/tags.json"), text);
  }
}

TEST_F(RunTags, ConcurrentChangesDoNotLoseATag) {
  const Descriptor other(::open((folder_ / "run").c_str(), O_RDONLY | O_DIRECTORY));
  ASSERT_EQ(::flock(*other, LOCK_EX), 0);
  EXPECT_EQ(mistake(change_tags(folder_ / "run", Tags{"x"}, {})),
            "E0805 another process is changing the tags of '" + (folder_ / "run").string() + "'");
}

}  // namespace
}  // namespace runner
