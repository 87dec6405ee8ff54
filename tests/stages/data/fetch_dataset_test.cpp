#include "stages/data/fetch_dataset.h"

#include <fcntl.h>
#include <unistd.h>

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/parent/cli/commands/data.h"
#include "runner/shared/disk/fault.h"
#include "runner/shared/disk/lease.h"
#include "runner/shared/text/units.h"
#include "tests/support/durable_storage.h"
#include "tests/support/fetching.h"
#include "tests/support/forwarding_storage.h"
#include "tests/support/http_server.h"
#include "tests/support/refused.h"
#include "tests/support/tar_archive.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A dataset of three images on its own server.
class FetchDatasetTest : public testing::Test {
 protected:
  FetchedDataset fetch(DatasetRequest request = {}, runner::Storage& storage = runner::disk()) {
    if (request.root.empty()) request.root = folder_ / "data";
    return fetch_published(dataset_, request, listener_.callbacks(), listener_.patience(), storage);
  }
  ServedReply answer(const SeenRequest& request) {
    if (request.target.ends_with("/pictures.tgz")) return served(request, archive_);
    if (request.target.ends_with("/labels.mat")) return served(request, labels_);
    return {.status = 404};
  }
  std::set<std::string> everything() const {
    std::set<std::string> names;
    if (!fs::exists(folder_ / "data")) return names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "data"))
      if (!entry.path().filename().string().starts_with(runner::Lease::kName))
        names.insert(fs::relative(entry.path(), folder_ / "data"));
    return names;
  }
  void expect_whole() const {
    EXPECT_EQ(everything(),
              (std::set<std::string>{"toys", "toys/jpg", "toys/jpg/1.jpg", "toys/jpg/2.jpg",
                                     "toys/jpg/3.jpg", "toys/labels.mat"}));
    EXPECT_EQ(folder_.read("data/toys/jpg/2.jpg"), "two");
    EXPECT_EQ(folder_.read("data/toys/labels.mat"), labels_);
  }

  const TemporaryFolder folder_;
  const std::string archive_ = tar_archive({{.path = "Toys", .type = AE_IFDIR},
                                            {.path = "Toys/jpg/1.jpg", .text = "one"},
                                            {.path = "Toys/jpg/2.jpg", .text = "two"},
                                            {.path = "Toys/jpg/3.jpg", .text = "three"}});
  const std::string labels_ = "labels";
  const std::string archive_sum_ = sum_of(runner::DigestKind::kMd5, archive_),
                    labels_sum_ = sum_of(runner::DigestKind::kMd5, labels_);
  HttpServer server_{[this](const SeenRequest& request) { return answer(request); }};
  const std::string url_ = server_.url("/published/");
  std::array<PublishedFile, 2> files_ = {
      PublishedFile{"pictures.tgz", url_, archive_sum_, static_cast<std::int64_t>(archive_.size()),
                    true},
      PublishedFile{"labels.mat", url_, labels_sum_, static_cast<std::int64_t>(labels_.size())}};
  const std::array<std::string_view, 1> needed_ = {"labels.mat"};
  PublishedDataset dataset_{"toys", "toys", "Toys", files_, "jpg", 3, needed_, {}};
  FetchListener listener_;
};

TEST_F(FetchDatasetTest, DownloadsChecksAndUnpacks) {
  const FetchedDataset fetched = fetch();
  EXPECT_EQ(fetched.folder, folder_ / "data/toys");
  EXPECT_FALSE(fetched.was_there);
  EXPECT_EQ(fetched.received, static_cast<std::int64_t>(archive_.size() + labels_.size()));
  EXPECT_EQ(fetched.files, 4);
  expect_whole();
  EXPECT_EQ(listener_.said.front(), "fetching toys, " + runner::bytes_text(fetched.received) +
                                        ", into '" + (folder_ / "data/toys").string() + "'");
  EXPECT_EQ(server_.seen().at(0).target, "/published/pictures.tgz");
}

TEST_F(FetchDatasetTest, FilesAreOnDiskBeforeTheyAreRenamed) {
  DurableStorage storage;
  fetch({}, storage);
  EXPECT_GE(storage.renamed, 3);  // two files and the folder
  EXPECT_THAT(storage.early, IsEmpty());
  EXPECT_TRUE(storage.has_flushed_the_latest_name());
}

TEST_F(FetchDatasetTest, ExistingDatasetIsLeftAlone) {
  fetch();
  listener_.said.clear();
  EXPECT_TRUE(fetch().was_there);
  EXPECT_EQ(server_.seen().size(), 2u);
  EXPECT_THAT(listener_.said, IsEmpty());
}

TEST_F(FetchDatasetTest, IncompleteDatasetIsNotOverwritten) {
  folder_.write("data/toys/jpg/1.jpg", "mine");
  EXPECT_REFUSED(fetch(), kFolderExists, "", "data/toys", "it should have 3 images but has 1");
  EXPECT_EQ(everything(), (std::set<std::string>{"toys", "toys/jpg", "toys/jpg/1.jpg"}));
  EXPECT_THAT(server_.seen(), IsEmpty());
}

TEST_F(FetchDatasetTest, MirrorMustHaveTheSameChecksums) {
  EXPECT_FALSE(fetch({.root = folder_ / "data", .url = server_.url("/mirror")}).was_there);
  EXPECT_EQ(server_.seen().at(0).target, "/mirror/pictures.tgz");
  files_[1].md5 = archive_sum_;
  fs::remove_all(folder_ / "data");
  EXPECT_REFUSED(fetch({.root = folder_ / "data", .url = server_.url("/mirror")}), kWrongChecksum,
                 "", "'labels.mat'", server_.url("/mirror/labels.mat"), labels_sum_, archive_sum_);
  EXPECT_FALSE(fs::exists(folder_ / "data/toys"));
  EXPECT_EQ(everything(),
            (std::set<std::string>{".toys.fetch", ".toys.fetch/pictures.tgz"}));  // was correct
}

TEST_F(FetchDatasetTest, GivenFilesAreRecognizedByChecksumAndNotDownloaded) {
  const auto archive = folder_.write("Downloads/pictures (1).tgz", archive_);
  fetch({.root = folder_ / "data", .files = {archive}});
  expect_whole();
  ASSERT_EQ(server_.seen().size(), 1u);
  EXPECT_EQ(server_.seen()[0].target, "/published/labels.mat");
  EXPECT_TRUE(fs::exists(archive));
  fs::remove_all(folder_ / "data");
  fetch({.root = folder_ / "data", .files = {folder_.write("l", labels_), archive}});
  expect_whole();
  EXPECT_EQ(server_.seen().size(), 1u);
}

TEST_F(FetchDatasetTest, GivenFileWithAnotherChecksumIsRejected) {
  const auto file = folder_.write("pictures.tgz", "something");
  EXPECT_REFUSED(fetch({.root = folder_ / "data", .files = {file}}), kWrongChecksum, "",
                 file.string(), sum_of(runner::DigestKind::kMd5, "something"), "pictures.tgz",
                 archive_sum_, "labels.mat", labels_sum_);
  EXPECT_THAT(server_.seen(), IsEmpty());
  EXPECT_REFUSED(fetch({.root = folder_ / "data", .files = {"no/such.tgz"}}), kMissingFile, "",
                 "no/such.tgz");
  EXPECT_THAT(everything(), IsEmpty());
}

TEST_F(FetchDatasetTest, WrongArchiveLeavesNothingBehind) {
  dataset_.images = 4;
  EXPECT_REFUSED(fetch(), kBadArchive, "", "it should have 4 images but has 3");
  EXPECT_FALSE(fs::exists(folder_ / "data/toys"));
  EXPECT_FALSE(fs::exists(folder_ / "data/.toys.fetch/unpacked"));
}

TEST_F(FetchDatasetTest, SimultaneousDownloadsAreRejected) {
  const fs::path work = folder_ / "data/.toys.fetch";
  fs::create_directories(work);
  auto other = runner::Lease::take(work, {});
  ASSERT_TRUE(other.lease);
  EXPECT_REFUSED(fetch(), kDownloadFailed, "", runner::Lease::holder_of(work),
                 (folder_ / "data").string());
  other.lease.reset();
  EXPECT_NO_THROW(fetch());
}

TEST_F(FetchDatasetTest, StopDuringUnpackingKeepsTheArchive) {
  listener_.is_canceled = [&] { return fs::exists(folder_ / "data/.toys.fetch/unpacked"); };
  EXPECT_THROW(fetch(), runner::Canceled);
  EXPECT_FALSE(fs::exists(folder_ / "data/toys"));
  listener_.is_canceled = [] { return false; };
  EXPECT_EQ(fetch().received, 0);
  expect_whole();
}

TEST_F(FetchDatasetTest, NoFailureLeavesAPartialDataset) {
  CountingStorage counting;
  fetch({}, counting);
  EXPECT_GT(counting.calls, 30);
  for (const auto action : {runner::Fault::Action::kFail, runner::Fault::Action::kFull}) {
    for (int count = 1; count <= counting.calls;
         count += action == runner::Fault::Action::kFull ? 4 : 1) {
      fs::remove_all(folder_ / "data");
      runner::FaultyStorage storage(runner::disk(), {runner::Fault::Point::kAny, count, action});
      const runner::Diagnostics refused = refusals_of([&] { fetch({}, storage); });
      if (fs::exists(folder_ / "data/toys"))
        EXPECT_TRUE(is_whole(dataset_, folder_ / "data/toys")) << count;
      for (const runner::Diagnostic& error : refused)
        EXPECT_THAT(error.help, Not(HasSubstr("run.dir")));
      EXPECT_NO_THROW(fetch()) << count;
      EXPECT_EQ(folder_.read("data/toys/jpg/3.jpg"), "three") << count;
    }
  }
}

TEST(PublishedDatasets, MatchTheCommandLine) {
  std::vector<std::string_view> names;
  for (const PublishedDataset& dataset : published_datasets()) {
    names.push_back(dataset.name);
    for (const PublishedFile& file : dataset.files) {
      EXPECT_EQ(file.md5.size(), 32u);
      EXPECT_TRUE(file.url.starts_with("https://") && file.url.ends_with('/'));
      EXPECT_LT(file.bytes, dataset.limits.bytes);
    }
    EXPECT_LT(dataset.images, dataset.limits.entries);
  }
  EXPECT_THAT(names, testing::ElementsAreArray(runner::kFetchableData));
  EXPECT_EQ(find_published("no"), nullptr);
}

TEST(FetchDataset, ExistingDataIsUsed) {
  const TemporaryFolder folder;
  for (const std::string root : {"itself/", "above/flowers-102/"}) {
    folder.write(root + "jpg/image_00001.jpg", "");
    folder.write(root + "imagelabels.mat", "");
    folder.write(root + "setid.mat", "");
  }
  EXPECT_TRUE(has_dataset("flowers102", folder / "itself"));
  EXPECT_FALSE(has_dataset("flowers102", folder / "none"));
  fetch_dataset("flowers102", folder / "itself", {});
  EXPECT_FALSE(fs::exists(folder / "itself/flowers-102"));
  fetch_dataset("flowers102", folder / "above", {});
  EXPECT_FALSE(fs::exists(folder / "above/.flowers-102.fetch"));
}

TEST(FetchDataset, MissingDataIsDownloaded) {
  const HttpServer proxy([](const SeenRequest&) { return ServedReply{.status = 403}; });
  const ScopedVariable variable("https_proxy", proxy.url());
  const TemporaryFolder folder;
  FetchListener listener;
  EXPECT_REFUSED(fetch_dataset("flowers102", folder.path(), listener.callbacks()), kDownloadFailed,
                 "", "102flowers.tgz");
  EXPECT_EQ(listener.said.at(0),
            "fetching flowers102, 329 MiB, into '" + (folder / "flowers-102").string() + "'");
  EXPECT_EQ(proxy.seen().at(0).target, "www.robots.ox.ac.uk:443");
}

}  // namespace
}  // namespace stages
