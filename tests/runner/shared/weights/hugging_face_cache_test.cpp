#include "runner/shared/weights/weights_file.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "runner/shared/error/stage_error.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

namespace fs = std::filesystem;

const std::string kCommit(40, 'a');

/// A cache that holds org/net in the layout of huggingface_hub.
class HuggingFaceCache : public testing::Test {
 protected:
  HuggingFaceCache() {
    ::setenv("HF_HUB_CACHE", at("hub").c_str(), 1);
    fs::create_directories(at("hub/models--org--net/snapshots/" + kCommit));
    folder_.write("hub/models--org--net/refs/main", kCommit);
    folder_.write("hub/models--org--net/refs/refs/pr/1", kCommit + "\n");
    folder_.write("hub/models--org--net/refs/gone", std::string(40, 'b'));
  }
  ~HuggingFaceCache() override {
    for (const char* name : {"HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"}) ::unsetenv(name);
  }
  std::string at(const std::string& name) const { return folder_ / name; }
  /// The error and the help for a rejected model, with '@' for the folder.
  std::string refusal(const std::string& reference) const {
    try {
      return "found in " + hub_snapshot(reference).string();
    } catch (const StageError& error) {
      EXPECT_EQ(error.code, ErrorCode::kMissingWeights);
      std::string text = error.what() + (" | " + error.help);
      if (const auto found = text.find(at("")); found != text.npos)
        text.replace(found, at("").size(), "@/");
      return text;
    }
  }
  TemporaryFolder folder_;
};

TEST_F(HuggingFaceCache, RevisionIsABranchAReferenceOrACommit) {
  for (const std::string revision :
       {"", "@main", "@refs/pr/1", "@aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})
    EXPECT_EQ(hub_snapshot("hf:org/net" + revision),
              at("hub/models--org--net/snapshots/" + kCommit))
        << revision;
}

TEST_F(HuggingFaceCache, OldestModelsHaveNoOrganization) {
  fs::rename(at("hub/models--org--net"), at("hub/models--gpt2"));
  EXPECT_EQ(hub_snapshot("hf:gpt2"), at("hub/models--gpt2/snapshots/" + kCommit));
}

TEST_F(HuggingFaceCache, IsInTheFolderOfHuggingFaceHub) {
  EXPECT_EQ(hub_cache(), at("hub"));
  ::unsetenv("HF_HUB_CACHE");
  ::setenv("HF_HOME", "/huggingface", 1);
  EXPECT_EQ(hub_cache(), "/huggingface/hub");
  ::unsetenv("HF_HOME");
  ::setenv("XDG_CACHE_HOME", "/cache", 1);
  EXPECT_EQ(hub_cache(), "/cache/huggingface/hub");
}

TEST_F(HuggingFaceCache, UnfetchedModelIsMissing) {
  EXPECT_EQ(refusal("hf:org/other"),
            "hf:org/other is not in '@/hub' | fetch it with `retort data fetch hf:org/other`");
  for (const std::string revision :
       {"v2", "gone", "refs", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"}) {
    EXPECT_EQ(refusal("hf:org/net@" + revision),
              "'@/hub/models--org--net' has no revision '" + revision +
                  "' | fetch it with `retort data fetch hf:org/net@" + revision + "`");
  }
}

TEST_F(HuggingFaceCache, NameThatLeavesTheCacheIsRejected) {
  folder_.write("hub/models--org--net/refs/evil", "../../../..");
  EXPECT_EQ(refusal("hf:org/net@evil"),
            "'@/hub/models--org--net' has no revision 'evil' | fetch it with `retort data fetch "
            "hf:org/net@evil`");
  for (const std::string reference :
       {"hf:", "hf:org/", "hf:../net", "hf:org/..", "hf:org/net/more", "hf:org/net@",
        "hf:org/net@../main", "hf:org/net@/etc", "hf:a--b/net", "hf:org/.net"}) {
    EXPECT_EQ(refusal(reference), "'" + reference +
                                      "' is not the name of a model on the Hub | "
                                      "write hf:ORG/NAME or hf:ORG/NAME@REVISION, as in "
                                      "hf:openai/clip-vit-base-patch32");
  }
}

}  // namespace
}  // namespace runner
