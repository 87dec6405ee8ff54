#include "stages/fetch/hub.h"

#include "runner/shared/weights/weights_file.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/shared/disk/fault.h"
#include "runner/shared/disk/lease.h"
#include "tests/support/durable_storage.h"
#include "tests/support/fetching.h"
#include "tests/support/forwarding_storage.h"
#include "tests/support/hub_server.h"
#include "tests/support/refused.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class HubTest : public testing::Test {
 protected:
  HubSnapshot fetch(HubRequest request = {}, runner::Storage& storage = runner::disk()) {
    if (request.repository.empty()) request.repository = "org/tower";
    request.cache = folder_ / "hub";
    request.endpoint = hub_.url();
    return fetch_hub(request, listener_.callbacks(), listener_.patience(), storage);
  }
  fs::path home() const { return folder_ / "hub/models--org--tower"; }
  std::string read(const std::string& below) const {
    return folder_.read("hub/models--org--tower/" + below);
  }

  const TemporaryFolder folder_;
  HubServer hub_;
  FetchListener listener_;
};

TEST_F(HubTest, CacheLayoutMatchesTheLibrary) {
  const HubSnapshot snapshot = fetch();
  const std::string below = "snapshots/" + hub_.commit();
  EXPECT_EQ(snapshot.commit, hub_.commit());
  EXPECT_EQ(snapshot.folder, home() / below);
  ASSERT_EQ(snapshot.files.size(), 2u);
  EXPECT_EQ(snapshot.files[0].name, "config.json");
  EXPECT_EQ(snapshot.files[1].name, "model.safetensors");
  EXPECT_EQ(snapshot.received,
            static_cast<std::int64_t>(hub_.config().size() + hub_.weights().size()));
  EXPECT_EQ(read("refs/main"), hub_.commit());
  EXPECT_EQ(fs::read_symlink(home() / below / "config.json"), "../../blobs/" + hub_.config_blob());
  EXPECT_EQ(fs::read_symlink(home() / below / "model.safetensors"),
            "../../blobs/" + hub_.weights_blob());
  EXPECT_EQ(read(below + "/model.safetensors"), hub_.weights());
  EXPECT_EQ(read("blobs/" + hub_.config_blob()), hub_.config());
  std::set<std::string> blobs;
  for (const auto& entry : fs::directory_iterator(home() / "blobs"))
    blobs.insert(entry.path().filename());
  EXPECT_EQ(blobs, (std::set<std::string>{hub_.config_blob(), hub_.weights_blob()}));
}

TEST_F(HubTest, FilesAreOnDiskBeforeTheyAreRenamed) {
  DurableStorage storage;
  fetch({}, storage);
  EXPECT_GE(storage.renamed, 3);  // two blobs and the snapshot
  EXPECT_THAT(storage.early, testing::IsEmpty());
  EXPECT_TRUE(storage.has_flushed_the_latest_name());
}

TEST_F(HubTest, CachedFilesAreNotDownloadedAgain) {
  fetch();
  const HubSnapshot again = fetch();
  EXPECT_EQ(again.received, 0);
  EXPECT_TRUE(again.files[0].was_there && again.files[1].was_there);
}

TEST_F(HubTest, DownloadsSelectedFilesAndRevisions) {
  const HubSnapshot snapshot =
      fetch({.repository = "", .revision = "refs/pr/1", .files = {"sub/notes.txt"}});
  EXPECT_EQ(read("refs/refs/pr/1"), hub_.commit());
  EXPECT_EQ(fs::read_symlink(snapshot.folder / "sub/notes.txt").string().substr(0, 15),
            "../../../blobs/");
  EXPECT_EQ(folder_.read(snapshot.folder / "sub/notes.txt"), "notes");
  EXPECT_EQ(hub_.seen().at(0).target, "/api/models/org/tower/revision/refs%2Fpr%2F1");
  fetch({.repository = "", .revision = hub_.commit()});  // a commit needs no reference
  EXPECT_FALSE(fs::exists(home() / "refs" / hub_.commit()));
  EXPECT_EQ(folder_.read(snapshot.folder / "config.json"),
            hub_.config());  // into the existing snapshot
}

TEST_F(HubTest, TokenIsNotSentToRedirectTargets) {
  const ScopedVariable token("HF_TOKEN", "hf_secret\n");
  fetch();
  for (const SeenRequest& request : hub_.seen())
    EXPECT_EQ(request.header("authorization"), "Bearer hf_secret");
  ASSERT_EQ(hub_.seen_elsewhere().size(), 1u);  // the weights
  EXPECT_EQ(hub_.seen_elsewhere()[0].header("authorization"), "");
  for (const std::string& line : listener_.said) EXPECT_THAT(line, Not(HasSubstr("secret")));
}

TEST_F(HubTest, DamagedWeightsAreRejected) {
  hub_.damage_weights();
  EXPECT_REFUSED(fetch(), kWrongChecksum, "", "model.safetensors", hub_.weights_blob());
  EXPECT_FALSE(fs::exists(home() / "refs/main"));
  EXPECT_TRUE(fs::is_empty(home() / "snapshots"));
}

TEST_F(HubTest, UnknownModelsAndFilesAreRejected) {
  EXPECT_REFUSED(fetch({.repository = "org/none"}), kNotPublished, "", "org/none", hub_.url(),
                 "404");
  EXPECT_REFUSED(fetch({.repository = "org/secret"}), kNotPublished, "", "org/secret", "401",
                 "HF_TOKEN");
  EXPECT_REFUSED(fetch({.repository = "", .files = {"none.bin"}}), kNotPublished, "", "none.bin",
                 "README.md, config.json, model.safetensors");
}

TEST_F(HubTest, OfflineModeDownloadsNothing) {
  const ScopedVariable offline("HF_HUB_OFFLINE", "1");
  EXPECT_REFUSED(fetch(), kDownloadFailed, "", "HF_HUB_OFFLINE=1");
  EXPECT_TRUE(hub_.seen().empty());
}

TEST_F(HubTest, ServerThatIsNotAHubIsRejected) {
  const auto failure = [](const std::string& body) {
    const HttpServer server([&](const SeenRequest&) { return ServedReply{.body = body}; });
    const HubRequest request{
        .repository = "a/b", .cache = "no/such", .endpoint = server.url() + "/"};
    return refusals_of([&] { fetch_hub(request, {}); });
  };
  EXPECT_REFUSED(failure("<html>"), kDownloadFailed, "", "no commit", "HF_ENDPOINT");
  EXPECT_REFUSED(failure(R"({"sha": "../.."})"), kDownloadFailed, "", "invalid commit");
  const std::string sha(40, 'a');
  EXPECT_REFUSED(
      failure(R"({"sha": ")" + sha +
              R"(", "siblings": [{"rfilename": 3}, {"rfilename": "a\\b.safetensors"}]})"),
      kDownloadFailed, "", R"('a\b.safetensors')");
}

TEST_F(HubTest, NamesOutsideTheCacheAreRejected) {
  for (const char* repository : {"../x", "/x", "a/../b"}) {
    EXPECT_REFUSED(fetch({.repository = repository}), kUsage, "") << repository;
  }
  EXPECT_REFUSED(fetch({.repository = "", .revision = "../../x"}), kUsage, "");
  hub_.set_etag("\"../../evil\"");
  EXPECT_REFUSED(fetch(), kDownloadFailed, "", "config.json");
}

TEST_F(HubTest, LinkedModelFolderIsNotWrittenTo) {
  const TemporaryFolder elsewhere;
  fs::create_directories(home().parent_path());
  fs::create_directory_symlink(elsewhere.path(), home());
  EXPECT_THROW(fetch(), runner::StageError);
  EXPECT_TRUE(fs::is_empty(elsewhere.path()));
}

TEST_F(HubTest, SimultaneousDownloadsAreRejected) {
  fs::create_directories(home());
  auto other = runner::Lease::take(home(), {});
  ASSERT_TRUE(other.lease);
  EXPECT_REFUSED(fetch(), kDownloadFailed, "", runner::Lease::holder_of(home()));
  other.lease.reset();
  EXPECT_NO_THROW(fetch());
}

TEST_F(HubTest, NoFailureLeavesAPartialSnapshot) {
  CountingStorage counting;
  fetch({}, counting);
  EXPECT_GT(counting.calls, 30);
  for (int count = 1; count <= counting.calls; ++count) {
    fs::remove_all(folder_ / "hub");
    runner::FaultyStorage storage(
        runner::disk(), {runner::Fault::Point::kAny, count, runner::Fault::Action::kFail});
    refusals_of([&] { fetch({}, storage); });
    const fs::path snapshot = home() / "snapshots" / hub_.commit();
    if (fs::exists(snapshot)) {
      EXPECT_EQ(folder_.read(snapshot / "config.json"), hub_.config()) << count;
      EXPECT_EQ(folder_.read(snapshot / "model.safetensors"), hub_.weights()) << count;
    }
    if (fs::exists(home() / "refs/main")) EXPECT_TRUE(fs::exists(snapshot)) << count;
    EXPECT_NO_THROW(fetch()) << count;
    EXPECT_EQ(read("refs/main"), hub_.commit()) << count;
  }
}

TEST(HubFiles, SafetensorsArePreferredToPickles) {
  EXPECT_THAT(wanted_files({"README.md", "config.json", "flax_model.msgpack", "model.safetensors",
                            "pytorch_model.bin", "preprocessor_config.json", "tf_model.h5",
                            "onnx/model.safetensors"}),
              ElementsAre("config.json", "preprocessor_config.json", "model.safetensors"));
  EXPECT_THAT(wanted_files({"config.json", "pytorch_model.bin", "training_args.bin"}),
              ElementsAre("config.json", "pytorch_model.bin"));
  EXPECT_THAT(wanted_files({"config.json", "model-00001-of-00002.safetensors",
                            "model-00002-of-00002.safetensors", "model.fp16.safetensors",
                            "model.safetensors.index.json"}),
              ElementsAre("config.json", "model-00001-of-00002.safetensors",
                          "model-00002-of-00002.safetensors", "model.safetensors.index.json"));
  EXPECT_THAT(
      wanted_files({"adapter_config.json", "adapter_model.bin", "adapter_model.safetensors"}),
      ElementsAre("adapter_config.json", "adapter_model.safetensors"));
  EXPECT_THAT(wanted_files({"open_clip_model.safetensors", "open_clip_pytorch_model.bin"}),
              ElementsAre("open_clip_model.safetensors"));
  EXPECT_TRUE(wanted_files({"config.json", "README.md"}).empty());
}

TEST(HubCache, LocationFollowsTheVariablesOfTheLibrary) {
  const ScopedVariable home("HOME", "/own/home"), cache("XDG_CACHE_HOME", ""),
      hf_home("HF_HOME", ""), hub("HF_HUB_CACHE", "");
  EXPECT_EQ(runner::hub_cache(), "/own/home/.cache/huggingface/hub");
  const ScopedVariable xdg("XDG_CACHE_HOME", "/xdg");
  EXPECT_EQ(runner::hub_cache(), "/xdg/huggingface/hub");
  const ScopedVariable hf("HF_HOME", "/hf");
  EXPECT_EQ(runner::hub_cache(), "/hf/hub");
  const ScopedVariable own("HF_HUB_CACHE", "/own");
  EXPECT_EQ(runner::hub_cache(), "/own");
}

}  // namespace
}  // namespace stages
