// End-to-end tests of `retort serve`.

#include <filesystem>
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/http_client.h"
#include "tests/support/output_shape.h"
#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr char kRetort[] = RETORT_BINARY_DIR "/bin/retort";

/// Serves a folder during its lifetime; a shell waits until the server ends.
class Serving {
 public:
  explicit Serving(const std::filesystem::path& folder) : folder_(folder) {
    const Ended started = run_shell(
        std::string(kRetort) +
            " serve runs --port 0 >address 2>errors & echo $! >pid\n"
            "until [ -s address ] || ! kill -0 $(cat pid) 2>/dev/null; do sleep 0.05; done",
        folder);
    address_ = file_text(folder / "address");
    std::smatch parts;
    if (std::regex_search(
            address_, parts,
            std::regex("^http://127\\.0\\.0\\.1:(\\d+)/\\?token=([0-9a-f]{32})\n$"))) {
      port_ = std::stoi(parts[1]);
      token_ = parts[2];
    }
  }
  ~Serving() { end("KILL"); }

  /// Sends a signal and waits until the program has ended.
  void end(const std::string& signal) const {
    run_shell("kill -" + signal + " $(cat pid); while kill -0 $(cat pid); do sleep 0.05; done",
              folder_);
  }
  int port() const { return port_; }
  const std::string& address() const { return address_; }
  const std::string& token() const { return token_; }
  std::string cookie() const {
    return "\r\nCookie: retort-" + std::to_string(port_) + "=" + token_;
  }
  std::string get(const std::string& target) const {
    return answer_of(port_, "GET " + target + " HTTP/1.1" + cookie());
  }

 private:
  const std::filesystem::path folder_;
  std::string address_, token_;
  int port_ = 0;
};

/// The address of the only run page in a list.
std::string run_address(const std::string& list) {
  std::smatch found;
  return std::regex_search(list, found, std::regex("href=\"(/run/[0-9a-f]+)\"")) ? found[1].str()
                                                                                 : "none";
}

class Serve : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made = run_shell(
        std::string(kRetort) +
            " data make image_folder --out photos --classes 2 --per-class 4 --size 32 -q && " +
            kRetort + classify + "'run.dir=\"runs/<script>alert(1)<\"'",
        folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.keep();
  }
  /// Starts an endless run and waits for its first metrics.
  void start_live_run() const {
    std::filesystem::remove_all(folder_ / "runs/live");
    run_shell(std::string(kRetort) + classify +
                  "train.epochs=1000000 run.dir=runs/live >/dev/null 2>&1 & echo $! >live\n"
                  "until [ -s runs/live/metrics.jsonl ]; do sleep 0.05; done",
              folder_.path());
  }
  void stop_live_run() const { run_shell("kill -TERM $(cat live)", folder_.path()); }

  static constexpr const char* classify =
      " run classify data.root=photos data.image_size=32 model.patch_size=8 threads=1 ";
  SharedFolder folder_;
};

TEST_F(Serve, ShowsReportsOnlyToTheOwner) {
  const Serving serving(folder_.path());
  ASSERT_NE(serving.port(), 0) << file_text(folder_ / "errors");
  EXPECT_THAT(answer_of(serving.port(), "GET / HTTP/1.1"),
              AllOf(StartsWith("HTTP/1.1 403 "), HasSubstr("`retort serve` printed"),
                    Not(HasSubstr("alert(1)"))));
  const std::string list =
      answer_of(serving.port(), "GET /?token=" + serving.token() + " HTTP/1.1");
  EXPECT_THAT(list,
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("HttpOnly; SameSite=Strict"),
                    HasSubstr("&lt;script&gt;alert(1)&lt;"), Not(HasSubstr("<script>alert(1)"))));
  const std::string report = serving.get(run_address(list));
  EXPECT_THAT(report,
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("<h1>classify"), HasSubstr("<svg "),
                    HasSubstr("Memory plan"), Not(HasSubstr("<script>alert(1)"))));
  for (const char* path : {"/run/../../photos", "/etc/passwd", "/run/%2e%2e%2f"})
    EXPECT_THAT(serving.get(path), StartsWith("HTTP/1.1 404 ")) << path;
  EXPECT_THAT(answer_of(serving.port(), "HEAD / HTTP/1.1" + serving.cookie()),
              AllOf(StartsWith("HTTP/1.1 200 "), testing::EndsWith("\r\n\r\n")));
  EXPECT_THAT(answer_of(serving.port(), "POST / HTTP/1.1" + serving.cookie()),
              StartsWith("HTTP/1.1 405 "));
}

TEST_F(Serve, JsonOutputMatchesItsSchema) {
  const Ended ended =
      run_shell(std::string(kRetort) +
                    " serve runs --port 0 --json >shown & server=$!\n"
                    "until [ -s shown ] || ! kill -0 $server 2>/dev/null; do sleep 0.05; done\n"
                    "kill -TERM $server; wait $server",
                folder_.path());
  EXPECT_EQ(output_complaints(nlohmann::json::parse(file_text(folder_ / "shown"))), "")
      << ended.err;
}

TEST_F(Serve, FollowsARunUntilItEnds) {
  start_live_run();
  const Serving serving(folder_.path());
  const std::string listed = serving.get("/?state=running");
  HttpClient follower(serving.port());
  follower.send("GET " + run_address(listed) + "/events HTTP/1.1\r\nHost: 127.0.0.1:" +
                std::to_string(serving.port()) + serving.cookie() + "\r\n\r\n");
  EXPECT_THAT(follower.receive_until("event: report\n"),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("event: progress\ndata: running")));
  EXPECT_THAT(serving.get(run_address(listed)), HasSubstr("data-events="))
      << "while the stream is open";
  stop_live_run();
  EXPECT_THAT(follower.receive_all(), testing::EndsWith("event: end\ndata: interrupted\n\n"));
}

TEST_F(Serve, OpenListIsUpdatedWhenARunEnds) {
  start_live_run();
  const Serving serving(folder_.path());
  HttpClient follower(serving.port());
  follower.send("GET /events?seen=none HTTP/1.1\r\nHost: 127.0.0.1:" +
                std::to_string(serving.port()) + serving.cookie() + "\r\n\r\n");
  EXPECT_THAT(follower.receive_until("event: report\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(serving.get("/?state=running"), HasSubstr(">runs/live<"));
  stop_live_run();
  EXPECT_THAT(follower.receive_until("event: report\n"), HasSubstr("event: report\n"));
  EXPECT_THAT(serving.get("/?state=interrupted"), HasSubstr(">runs/live<"));
}

TEST_F(Serve, DamagedRunHasARowAndAPage) {
  run_shell(
      "mkdir -p damaged/runs && cp -r runs/*alert* damaged/runs/d && echo 'a: [' "
      ">damaged/runs/d/.retort/recipe.yaml && echo '{' >damaged/runs/d/summary.json",
      folder_.path());
  const Serving serving(folder_ / "damaged");
  const std::string list = serving.get("/");
  EXPECT_THAT(list, HasSubstr("damaged: "));
  EXPECT_THAT(serving.get(run_address(list)),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("The record cannot be shown.")));
}

TEST_F(Serve, StopsOnSignals) {
  // Shells make background programs ignore SIGINT.
  const auto ended_by = [&](const std::string& signal) {
    return run_shell("rm -f address; env --default-signal=INT " + std::string(kRetort) +
                         " serve runs --port 0 >address & serve=$!\n"
                         "until [ -s address ]; do sleep 0.05; done; kill -" +
                         signal + " $serve; wait $serve",
                     folder_.path());
  };
  EXPECT_EQ(ended_by("INT").exit, 130);
  const Ended terminated = ended_by("TERM");
  EXPECT_EQ(terminated.exit, 143);
  EXPECT_THAT(terminated.err, Not(HasSubstr("error")));
}

TEST_F(Serve, OccupiedPortAndMissingFolderAreRejected) {
  const Serving serving(folder_.path());
  const std::string port = std::to_string(serving.port());
  const Ended taken = retort("serve runs --port " + port, folder_.path());
  EXPECT_EQ(taken.exit, 64);
  EXPECT_EQ(taken.err, "error[E0501]: port " + port +
                           " cannot be opened: Address already in use\n"
                           "  help: `--port 0` uses a free port, `--port N` a specific one\n");
  const Ended missing = retort("serve nowhere --port 0", folder_.path());
  EXPECT_EQ(missing.exit, 66);
  EXPECT_THAT(missing.err, StartsWith("error[E0806]: there is no folder 'nowhere'\n"));
}

}  // namespace
