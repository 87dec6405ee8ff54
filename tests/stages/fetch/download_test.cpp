#include "stages/fetch/download.h"

#include <unistd.h>

#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/shared/disk/digest.h"
#include "runner/shared/disk/fault.h"
#include "runner/shared/text/units.h"
#include "stages/fetch/partial_file.h"
#include "tests/support/fetching.h"
#include "tests/support/forwarding_storage.h"
#include "tests/support/http_server.h"
#include "tests/support/refused.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string pattern(std::size_t size) {
  std::string bytes;
  for (std::size_t i = 0; bytes.size() < size; ++i) bytes += std::to_string(i * i) + ",";
  bytes.resize(size);
  return bytes;
}

/// Downloads data.bin, and records the messages and progress.
class DownloadTest : public testing::Test {
 protected:
  std::int64_t fetch(const HttpServer& server, runner::Storage& storage = runner::disk()) {
    return download(wanted(server), listener_.callbacks(), listener_.patience(), storage);
  }
  Download wanted(const HttpServer& server) const {
    return {.url = server.url("/data.bin"),
            .file = file_,
            .checksum = Checksum{runner::DigestKind::kMd5, sum_}};
  }
  std::string part() const { return file_.string() + ".part"; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }

  const TemporaryFolder folder_;
  const fs::path file_ = folder_ / "data.bin";
  const std::string bytes_ = pattern(300'000);
  const std::string sum_ = sum_of(runner::DigestKind::kMd5, bytes_);
  FetchListener listener_;
};

TEST_F(DownloadTest, CompleteFileGetsItsName) {
  const HttpServer server([&](const SeenRequest& request) { return served(request, bytes_); });
  EXPECT_EQ(fetch(server), 300'000);
  EXPECT_EQ(folder_.read("data.bin"), bytes_);
  EXPECT_THAT(names(), ElementsAre("data.bin"));
  EXPECT_THAT(listener_.said, ElementsAre("fetching " + server.url("/data.bin") + ", 293 KiB"));
  EXPECT_THAT(listener_.phases, ElementsAre("download data.bin", "check data.bin"));
  EXPECT_EQ(fetch(server), 0);  // it already exists
  EXPECT_EQ(server.seen().size(), 1u);
}

TEST_F(DownloadTest, BrokenConnectionIsResumed) {
  int cuts = 0;
  const HttpServer server([&](const SeenRequest& request) {
    ServedReply reply = served(request, bytes_);
    if (cuts++ < 2) reply.cut_after = 100'000;
    return reply;
  });
  EXPECT_EQ(fetch(server), 300'000);
  EXPECT_EQ(folder_.read("data.bin"), bytes_);
  const auto seen = server.seen();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[1].header("range"), "bytes=100000-");
  EXPECT_EQ(seen[1].header("if-range"), "\"v1\"");
  EXPECT_EQ(seen[2].header("range"), "bytes=200000-");
  EXPECT_THAT(listener_.waits, ElementsAre(1, 1));  // some data arrived in between
  EXPECT_EQ(listener_.said.at(1),
            server.url("/data.bin") +
                ": transfer closed with 200000 bytes remaining to read; trying again in 1 s");
  EXPECT_EQ(listener_.said.at(2), "continuing 'data.bin' after 98 KiB");
}

TEST_F(DownloadTest, StoppedDownloadIsResumedNextTime) {
  const HttpServer server([&](const SeenRequest& request) { return served(request, bytes_); });
  listener_.is_canceled = [&] { return fs::exists(part()); };
  EXPECT_THROW(fetch(server), runner::Canceled);
  const auto here = static_cast<std::int64_t>(fs::file_size(part()));
  EXPECT_GT(here, 0);
  EXPECT_LT(here, 300'000);
  EXPECT_EQ(listener_.said.back(), "stopped: " + runner::bytes_text(here) +
                                       " of 293 KiB are kept in '" + part() +
                                       "', and the same command continues from there");
  EXPECT_FALSE(fs::exists(file_));
  listener_.is_canceled = [] { return false; };
  EXPECT_EQ(fetch(server), 300'000 - here);
  EXPECT_EQ(folder_.read("data.bin"), bytes_);
}

TEST_F(DownloadTest, ServerWithoutRangesRestartsAndIsReported) {
  int cuts = 0;
  const HttpServer server([&](const SeenRequest&) {
    ServedReply reply{.body = bytes_};
    if (cuts++ == 0) reply.cut_after = 100'000;
    return reply;
  });
  EXPECT_EQ(fetch(server), 400'000);
  EXPECT_EQ(folder_.read("data.bin"), bytes_);
  EXPECT_EQ(server.seen().at(1).header("if-range"),
            "");  // the server sent no ETag
  EXPECT_EQ(listener_.said.at(2),
            "the server cannot continue in the middle of 'data.bin', or the file has changed: "
            "starting over");
}

TEST_F(DownloadTest, ChangedFileRestartsTheDownload) {
  int requests = 0;
  const HttpServer server([&](const SeenRequest& request) {
    if (requests++ > 0) return served(request, bytes_, "\"v2\"");
    ServedReply reply = served(request, pattern(200'000), "\"v1\"");
    reply.cut_after = 150'000;
    return reply;
  });
  fetch(server);
  EXPECT_EQ(server.seen().at(1).header("if-range"), "\"v1\"");
  EXPECT_EQ(folder_.read("data.bin"), bytes_);
}

TEST_F(DownloadTest, ChecksumDetectsAPartialDownloadOfAnotherFile) {
  folder_.write("data.bin.part", std::string(100'000, 'x'));
  const HttpServer server([&](const SeenRequest& request) { return served(request, bytes_); });
  EXPECT_EQ(fetch(server), 500'000);
  EXPECT_EQ(folder_.read("data.bin"), bytes_);
  EXPECT_THAT(listener_.said.at(1), HasSubstr(" but should be " + sum_ + ": starting over"));
}

TEST_F(DownloadTest, CompletePartialFileIsNotDownloadedAgain) {
  folder_.write("data.bin.part", bytes_);
  const HttpServer server([&](const SeenRequest& request) { return served(request, bytes_); });
  EXPECT_EQ(fetch(server), 0);
  EXPECT_THAT(names(), ElementsAre("data.bin"));
}

TEST_F(DownloadTest, OversizedPartialFileRestartsTheDownload) {
  folder_.write("data.bin.part", bytes_ + "more");
  const HttpServer server([&](const SeenRequest& request) { return served(request, bytes_); });
  fetch(server);
  EXPECT_EQ(folder_.read("data.bin"), bytes_);
}

TEST_F(DownloadTest, ResumingNeedsAChecksumOrAnEtag) {
  folder_.write("data.bin.part", std::string(100, 'x'));
  const HttpServer server([&](const SeenRequest& request) { return served(request, bytes_); });
  Download what = wanted(server);
  what.checksum.reset();
  EXPECT_EQ(download(what, listener_.callbacks(), listener_.patience()), 300'000);
  EXPECT_EQ(server.seen().at(0).header("range"), "");
  EXPECT_EQ(folder_.read("data.bin"), bytes_);
}

TEST_F(DownloadTest, PartialFileIsOnlyResumedFromItsOwnUrl) {
  const HttpServer server([&](const SeenRequest& request) { return served(request, bytes_); });
  Download what = wanted(server);
  what.checksum.reset();
  const auto fetch_after = [&](const std::string& address) {
    fs::remove(file_);
    folder_.write("data.bin.part", bytes_.substr(0, 100'000));
    folder_.write("data.bin.part.json",
                  R"({"url_sha256": ")" + runner::sha256(address) + R"(", "validator": "\"v1\""})");
    return download(what, listener_.callbacks(), listener_.patience());
  };
  EXPECT_EQ(fetch_after(what.url), 200'000);
  EXPECT_EQ(fetch_after(server.url("/other.bin")), 300'000);
  EXPECT_EQ(server.seen().at(1).header("range"), "");
  EXPECT_EQ(folder_.read("data.bin"), bytes_);
}

TEST_F(DownloadTest, PasswordInTheUrlIsNotStored) {
  PartialFile part(file_, "https://me:hunter2@example.org/data.bin?signature=hunter3",
                   runner::disk());
  part.note("\"v1\"");
  EXPECT_THAT(folder_.read("data.bin.part.json"),
              testing::AllOf(testing::HasSubstr("v1"), Not(HasSubstr("hunter"))));
}

TEST_F(DownloadTest, WrongChecksumReportsBothAndKeepsNothing) {
  const HttpServer server(
      [&](const SeenRequest& request) { return served(request, "something else"); });
  EXPECT_REFUSED(fetch(server), kWrongChecksum, "", server.url("/data.bin"),
                 sum_of(runner::DigestKind::kMd5, "something else"), sum_);
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_EQ(server.seen().size(), 1u);
}

TEST_F(DownloadTest, InterruptedWrongFileIsRejectedToo) {
  int requests = 0;
  const HttpServer server([&](const SeenRequest& request) {
    ServedReply reply = served(request, std::string(1000, 'x'));
    if (requests++ % 2 == 0) reply.cut_after = 500;
    return reply;
  });
  EXPECT_REFUSED(fetch(server), kWrongChecksum, "");
  EXPECT_EQ(server.seen().size(), 4u);
}

TEST_F(DownloadTest, MissingFileIsNotRequestedAgain) {
  const HttpServer server(
      [](const SeenRequest&) { return ServedReply{.status = 404, .body = "no"}; });
  EXPECT_REFUSED(fetch(server), kNotPublished, "", server.url("/data.bin"), "404");
  EXPECT_EQ(server.seen().size(), 1u);
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(DownloadTest, RetryAfterHeaderIsRespected) {
  int requests = 0;
  const HttpServer server([&](const SeenRequest& request) {
    if (++requests == 1) return ServedReply{.status = 503, .headers = {{"Retry-After", "7"}}};
    if (requests == 2) return ServedReply{.status = 429, .headers = {{"Retry-After", "100000"}}};
    return served(request, bytes_);
  });
  EXPECT_EQ(fetch(server), 300'000);
  EXPECT_THAT(listener_.waits, ElementsAre(7, 120));
  EXPECT_EQ(listener_.said.at(0),
            server.url("/data.bin") + ": the server responded with 503; trying again in 7 s");
}

TEST_F(DownloadTest, GivesUpIfNoDataArrives) {
  const HttpServer server([](const SeenRequest&) { return ServedReply{.status = 502}; });
  EXPECT_REFUSED(fetch(server), kDownloadFailed, "", "502", "https_proxy");
  EXPECT_THAT(listener_.waits, ElementsAre(1, 2, 4, 8));
}

TEST_F(DownloadTest, KeepsThePartialFileAfterGivingUp) {
  int requests = 0;
  const HttpServer server([&](const SeenRequest& request) {
    if (requests++ > 0) return ServedReply{.status = 500};
    ServedReply reply = served(request, bytes_);
    reply.cut_after = 100'000;
    return reply;
  });
  EXPECT_REFUSED(fetch(server), kDownloadFailed, "", "98 KiB of 293 KiB", part());
  EXPECT_EQ(folder_.read("data.bin.part"), bytes_.substr(0, 100'000));
}

TEST_F(DownloadTest, EmptyFileIsDownloaded) {
  const HttpServer server([](const SeenRequest& request) { return served(request, ""); });
  Download what = wanted(server);
  what.checksum->hex = sum_of(runner::DigestKind::kMd5, "");
  EXPECT_EQ(download(what, listener_.callbacks(), listener_.patience()), 0);
  EXPECT_THAT(names(), ElementsAre("data.bin"));
}

TEST_F(DownloadTest, LinkInsteadOfThePartialFileIsNotFollowed) {
  const auto other = folder_.write("other", "mine");
  fs::create_symlink(other, part());
  const HttpServer server([&](const SeenRequest& request) { return served(request, bytes_); });
  fetch(server);
  EXPECT_EQ(folder_.read("other"), "mine");
  EXPECT_EQ(folder_.read("data.bin"), bytes_);
}

class SmallDisk : public ForwardingStorage {
 public:
  std::optional<std::uint64_t> free_bytes(const fs::path&) override { return 400'000; }
};

TEST_F(DownloadTest, DiskSpaceIsCheckedFirst) {
  const HttpServer server([&](const SeenRequest& request) { return served(request, bytes_); });
  SmallDisk storage;
  Download what = wanted(server);
  what.also_needs = 200'000;
  EXPECT_REFUSED(download(what, listener_.callbacks(), listener_.patience(), storage), kDiskFull,
                 "", folder_.path().string(), "391 KiB", "488 KiB");
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(DownloadTest, EndlessResponseDoesNotFillTheDisk) {
  const HttpServer server([&](const SeenRequest&) {
    return ServedReply{.body = std::string(17 << 20, 'a'), .has_length = false};
  });
  SmallDisk storage;
  Download what = wanted(server);
  EXPECT_REFUSED(download(what, listener_.callbacks(), listener_.patience(), storage), kDiskFull,
                 "", "16 MiB");
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(DownloadTest, ExcessBytesAreRejected) {
  const HttpServer server(
      [&](const SeenRequest&) { return ServedReply{.body = bytes_, .has_length = false}; });
  Download what = wanted(server);
  what.bytes = 299'999;
  EXPECT_REFUSED(download(what, listener_.callbacks(), listener_.patience()), kDownloadFailed, "",
                 "293 KiB");
  EXPECT_THAT(names(), IsEmpty());
  what.bytes = 300'000;
  EXPECT_EQ(download(what, listener_.callbacks(), listener_.patience()), 300'000);
}

TEST_F(DownloadTest, FullDiskKeepsThePartialFile) {
  const HttpServer server([&](const SeenRequest& request) { return served(request, bytes_); });
  std::size_t written = 0;
  WritingStorage storage([&](int file, const char* data, std::size_t size) -> ssize_t {
    if (written > 100'000) return errno = ENOSPC, -1;
    written += size;
    return ::write(file, data, size);
  });
  EXPECT_REFUSED(fetch(server, storage), kDiskFull, "", part());
  EXPECT_FALSE(fs::exists(file_));
  const auto here = static_cast<std::int64_t>(fs::file_size(part()));
  EXPECT_GT(here, 0);
  EXPECT_EQ(fetch(server), 300'000 - here);
  EXPECT_EQ(folder_.read("data.bin"), bytes_);
}

TEST_F(DownloadTest, NoFailureLeavesAPartialFileUnderItsName) {
  const HttpServer server([&](const SeenRequest& request) { return served(request, bytes_); });
  CountingStorage counting;
  fetch(server, counting);
  EXPECT_GT(counting.calls, 10);
  for (int count = 1; count <= counting.calls; ++count) {
    fs::remove(file_);
    runner::FaultyStorage storage(
        runner::disk(), {runner::Fault::Point::kAny, count, runner::Fault::Action::kFail});
    refusals_of([&] { fetch(server, storage); });
    if (fs::exists(file_)) EXPECT_EQ(folder_.read("data.bin"), bytes_) << count;
    EXPECT_NO_THROW(fetch(server)) << count;
    EXPECT_EQ(folder_.read("data.bin"), bytes_) << count;
  }
}

}  // namespace
}  // namespace stages
