// End-to-end tests of `retort data fetch`, with servers on this machine.

#include <signal.h>

#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/hub_server.h"
#include "tests/support/program.h"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class Fetch : public testing::Test {
 protected:
  /// Runs `retort data fetch` against `hub_`.
  Ended fetch(const std::string& arguments, const std::string& variables = "") const {
    return run_shell(variables + " HF_ENDPOINT=" + hub_.url() +
                         " HF_HUB_CACHE=hub HF_TOKEN=hf_secret " +
                         RETORT_BINARY_DIR "/bin/retort data fetch " + arguments,
                     folder_.path());
  }
  fs::path home() const { return folder_ / "hub/models--org--tower"; }
  fs::path snapshot() const { return home() / "snapshots" / hub_.commit(); }

  const TemporaryFolder folder_;
  HubServer hub_;
};

TEST_F(Fetch, FetchesAModelFromTheHub) {
  const Ended ended = fetch("hf:org/tower");
  EXPECT_EQ(ended.exit, 0);
  EXPECT_EQ(ended.out, "org/tower is in hub/models--org--tower/snapshots/" + hub_.commit() +
                           "\n  config.json\n  model.safetensors\n");
  EXPECT_THAT(ended.err, HasSubstr("/model.safetensors, 49 KiB\n"));
  EXPECT_THAT(ended.out + ended.err, Not(HasSubstr("secret")));
  EXPECT_EQ(file_text(snapshot() / "model.safetensors"), hub_.weights());

  const json again = json::parse(fetch("hf:org/tower@main --json -q").out)["result"];
  EXPECT_EQ(again["commit"], hub_.commit());
  EXPECT_EQ(again["received_bytes"], 0);
  EXPECT_EQ(again["files"][1].dump(),
            R"({"bytes":50000,"name":"model.safetensors","was_there":true})");

  const Ended other = fetch("hf:org/tower --file sub/notes.txt --out elsewhere --url " + hub_.url(),
                            "HF_ENDPOINT=http://no.invalid");
  EXPECT_EQ(other.exit, 0) << other.err;
  EXPECT_EQ(file_text(folder_ / "elsewhere/models--org--tower/snapshots" / hub_.commit() /
                      "sub/notes.txt"),
            "notes");
}

TEST_F(Fetch, EndlessResponseIsAborted) {
  const HttpServer endless([](const SeenRequest&) {
    return ServedReply{.body = std::string(40 << 20, ' '), .has_length = false};
  });
  const Ended ended = fetch("hf:org/tower --url " + endless.url());
  EXPECT_EQ(ended.exit, 69) << ended.err;
  EXPECT_THAT(ended.err,
              HasSubstr(" does not respond like the Hugging Face Hub: the response is too long\n"));
  EXPECT_FALSE(fs::exists(home() / "snapshots"));
}

TEST_F(Fetch, MissingModelIsReported) {
  const Ended ended = fetch("hf:org/none");
  EXPECT_EQ(ended.exit, 66);
  EXPECT_EQ(ended.err,
            "error[E0631]: cannot fetch 'org/none': " + hub_.url() +
                "/api/models/org/none/revision/main: the server responded with 404, not found\n"
                "  help: check the name and the revision\n");
}

TEST_F(Fetch, RecoversFromAKillAtAnyPoint) {
  int kills = 0;
  for (int count = 1;; ++count) {
    ASSERT_LT(count, 200);
    fs::remove_all(folder_ / "hub");
    const Ended killed =
        fetch("hf:org/tower -q", "RETORT_FAULT=retort-worker/any:" + std::to_string(count));
    if (killed.exit == 0) break;
    ++kills;
    EXPECT_EQ(killed.exit, 1) << killed.err;
    if (fs::exists(snapshot()))
      EXPECT_EQ(file_text(snapshot() / "model.safetensors"), hub_.weights()) << count;
    EXPECT_FALSE(fs::exists(home() / "refs/main") && !fs::exists(snapshot())) << count;
    if (count % 4 != 0) continue;  // starting the program is slow
    EXPECT_EQ(fetch("hf:org/tower -q").exit, 0) << count;
    EXPECT_EQ(file_text(snapshot() / "model.safetensors"), hub_.weights()) << count;
    EXPECT_EQ(file_text(home() / "refs/main"), hub_.commit()) << count;
  }
  EXPECT_GT(kills, 10);
}

TEST_F(Fetch, WrongArchiveIsNotUnpacked) {
  const HttpServer server(
      [](const SeenRequest& request) { return served(request, "an archive of something else"); });
  const Ended ended = fetch("flowers102 --url " + server.url());
  EXPECT_EQ(ended.exit, 65);
  EXPECT_THAT(ended.err, HasSubstr("error[E0632]: '102flowers.tgz' from " +
                                   server.url("/102flowers.tgz") + ": its MD5 is "));
  EXPECT_THAT(ended.err, HasSubstr(" but should be 52808999861908f626f3c1f4e79d11fa\n"));
  EXPECT_TRUE(fs::is_empty(folder_ / "data"));
}

TEST_F(Fetch, UsesTheProxyFromTheEnvironment) {
  const HttpServer proxy([](const SeenRequest&) { return ServedReply{.status = 404}; });
  const Ended ended =
      fetch("cub200 --url http://data.invalid/birds", "no_proxy= http_proxy=" + proxy.url());
  EXPECT_EQ(ended.exit, 66);
  ASSERT_EQ(proxy.seen().size(), 1u);
  EXPECT_EQ(proxy.seen()[0].target, "http://data.invalid/birds/CUB_200_2011.tgz");
}

TEST_F(Fetch, InterruptKeepsThePartialDownload) {
  const HttpServer server([](const SeenRequest& request) {
    ServedReply reply = served(request, std::string(1'000'000, 'x'));
    reply.cut_after = 600'000;
    reply.stalls = true;
    return reply;
  });
  auto running = std::async(std::launch::async, [&] {
    return run_shell("exec sh -c 'echo $$ >pid; exec " RETORT_BINARY_DIR
                     "/bin/retort data fetch cub200 --url " +
                         server.url() + "'",
                     folder_.path());
  });
  const fs::path part = folder_ / "data/.CUB_200_2011.fetch/CUB_200_2011.tgz.part";
  std::error_code error;
  while (fs::file_size(part, error) != 600'000) {
    ASSERT_EQ(running.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout)
        << running.get().err;
  }
  ::kill(std::stoi(file_text(folder_ / "pid")), SIGINT);
  const Ended ended = running.get();
  EXPECT_EQ(ended.exit, 130);
  EXPECT_THAT(ended.err,
              HasSubstr("data: stopped: 586 KiB of 977 KiB are kept in 'data/.CUB_200_2011.fetch/"
                        "CUB_200_2011.tgz.part', and the same command continues from there\n"));
  EXPECT_EQ(fs::file_size(part), 600'000u);
}

}  // namespace
