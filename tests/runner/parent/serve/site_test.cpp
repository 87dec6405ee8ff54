#include "runner/parent/serve/site.h"

#include <gmock/gmock.h>

#include "runner/shared/record/recorded_run.h"
#include "tests/support/recorded_runs.h"

namespace runner {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

constexpr const char* kToken = "0123456789abcdef0123456789abcdef";

/// A site for the runs in a folder, with the requests of an open browser.
class Served {
 public:
  PageRequest request(const std::string& path, const std::string& method = "GET") const {
    return {.method = method,
            .path = path,
            .headers = {{"host", "127.0.0.1:80"}, {"cookie", std::string("retort-80=") + kToken}}};
  }
  PageReply get(const std::string& path) { return site_.answer(request(path)); }
  PageReply answer(const PageRequest& request) { return site_.answer(request); }
  std::string id(const std::string& run) {
    return catalog_.refresh()->get()->id_of((folder_ / run).string());
  }
  const TemporaryFolder& folder() const { return folder_; }
  RunCatalog& catalog() { return catalog_; }

 private:
  TemporaryFolder folder_;
  RunCatalog catalog_{{.folders = {folder_.path()}}, ""};
  Site site_{catalog_, kToken, 80};
};

TEST(Site, TokenBecomesACookie) {
  Served served;
  PageRequest first = served.request("/");
  first.headers.erase("cookie");
  EXPECT_EQ(served.answer(first).status, 403);
  first.query["token"] = kToken;
  const PageReply reply = served.answer(first);
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.headers,
              Contains(Pair("Set-Cookie", std::string("retort-80=") + kToken +
                                              "; Path=/; HttpOnly; SameSite=Strict")));
  EXPECT_THAT(served.get("/").headers, Not(Contains(Pair("Set-Cookie", testing::_))));
}

TEST(Site, WrongTokenIsRejectedWithAdvice) {
  Served served;
  write_run(served.folder(), "secret-name");
  for (const std::string wrong : {"", "0123456789abcdef0123456789abcdee", "0"}) {
    PageRequest request = served.request("/");
    request.headers["cookie"] = "retort-80=" + wrong;
    request.query["token"] = wrong;
    const PageReply reply = served.answer(request);
    EXPECT_EQ(reply.status, 403);
    EXPECT_THAT(reply.body, AllOf(HasSubstr("Open the address that `retort serve` printed"),
                                  Not(HasSubstr("secret-name"))));
    EXPECT_THAT(reply.headers, Not(Contains(Pair("Set-Cookie", testing::_))));
  }
}

TEST(Site, ForeignHostIsRejectedEvenWithTheToken) {
  Served served;
  for (const char* host : {"evil.example:80", "127.0.0.1", "127.0.0.1:81", "", "localhost"}) {
    PageRequest request = served.request("/");
    request.headers["host"] = host;
    request.query["token"] = kToken;
    EXPECT_EQ(served.answer(request).status, 403) << host;
  }
  PageRequest request = served.request("/");
  request.headers["host"] = "localhost:80";
  EXPECT_EQ(served.answer(request).status, 200);
}

TEST(Site, OnlyGetAndHeadAreAnswered) {
  Served served;
  EXPECT_EQ(served.answer(served.request("/", "HEAD")).status, 200);
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS"}) {
    const PageReply reply = served.answer(served.request("/", method));
    EXPECT_EQ(reply.status, 405);
    EXPECT_THAT(reply.headers, Contains(Pair("Allow", "GET, HEAD")));
  }
}

TEST(Site, OnlyListedIdsAreFound) {
  Served served;
  write_run(served.folder(), "r");
  served.folder().write("outside.txt", "outside");
  for (const std::string& path : std::vector<std::string>{
           "/run/", "/run/r", "/run/..", "/run/../../etc/passwd", "/run/%2e%2e", "/sweep/x", "/x",
           "/run/" + served.folder().path().string() + "/r", "/outside.txt", "//", "/run"})
    EXPECT_EQ(served.get(path).status, 404) << path;
  EXPECT_EQ(served.get("/run/" + served.id("r")).status, 200);
}

TEST(Site, RunsBehindALinkAreNotListed) {
  Served served;
  const TemporaryFolder outside;
  write_run(outside, "other");
  std::filesystem::create_directory_symlink(outside / "other", served.folder() / "link");
  EXPECT_THAT(served.get("/").body, HasSubstr("0 runs"));
}

TEST(Site, EveryReplyHasAContentSecurityPolicy) {
  Served served;
  for (const char* path : {"/", "/run/none"}) {
    const PageReply reply = served.get(path);
    EXPECT_THAT(
        reply.headers,
        AllOf(Contains(Pair("Content-Security-Policy", AllOf(HasSubstr("default-src 'none'"),
                                                             HasSubstr("frame-ancestors 'none'")))),
              Contains(Pair("X-Content-Type-Options", "nosniff")),
              Contains(Pair("Cache-Control", "no-store")),
              Contains(Pair("Referrer-Policy", "no-referrer"))));
  }
}

TEST(Site, NamesAreEscaped) {
  Served served;
  write_run(served.folder(), "<script>alert(1)<");
  const std::string id = served.id("<script>alert(1)<");
  ASSERT_NE(id, "");
  for (const std::string& path : {std::string("/"), "/run/" + id}) {
    const std::string body = served.get(path).body;
    EXPECT_THAT(body,
                AllOf(HasSubstr("&lt;script&gt;alert(1)&lt;"), Not(HasSubstr("<script>alert(1)"))))
        << path;
  }
  PageRequest request = served.request("/");
  request.query["text"] = "\"><script>alert(2)</script>";
  EXPECT_THAT(served.answer(request).body, Not(HasSubstr("<script>alert(2)")));
}

TEST(Site, RunPageIsItsReport) {
  Served served;
  write_run(served.folder(), "a");
  write_run(served.folder(), "b", "0.25", "model.full");
  const std::string a = served.id("a"), b = served.id("b");
  const std::string body = served.get("/run/" + a).body;
  EXPECT_THAT(body,
              AllOf(HasSubstr("<h1>probe</h1>"), HasSubstr("<a href=\"/\">all runs</a>"),
                    HasSubstr("<form method=\"get\" action=\"/compare\">"),
                    HasSubstr("<option value=\"" + b + "\">"), Not(HasSubstr("data-events"))));
  PageRequest compare = served.request("/compare");
  compare.query = {{"a", a}, {"b", b}};
  EXPECT_THAT(served.answer(compare).body,
              AllOf(HasSubstr("<td>model.kind</td><td>model.lora</td><td>model.full</td>"),
                    HasSubstr("<td>evaluate</td><td>evaluate/top1</td>"
                              "<td class=\"number\">0.5</td><td class=\"number\">0.25</td>"
                              "<td class=\"number\">-0.25</td>")));
  compare.query["b"] = "none";
  EXPECT_EQ(served.answer(compare).status, 404);
}

TEST(Site, RunInProgressIsFollowed) {
  Served served;
  write_run(served.folder(), "r", "0.5", "model.lora", "running");
  const auto lock = RunLock::take(served.folder() / "r");
  ASSERT_TRUE(lock);
  const std::string address = "/run/" + served.id("r");
  EXPECT_THAT(served.get(address).body,
              AllOf(HasSubstr("<p id=\"progress\">running"),
                    HasSubstr("<main data-events=\"" + address + "/events\">")));
  const PageReply events = served.get(address + "/events");
  EXPECT_EQ(events.type, "text/event-stream");
  ASSERT_TRUE(events.events);
  EXPECT_THAT(*events.events(), testing::StartsWith("event: progress\n"));
}

TEST(Site, ListIsFollowedWithItsFilter) {
  Served served;
  write_run(served.folder(), "r");
  PageRequest request = served.request("/");
  request.query = {{"state", "finished"}, {"token", kToken}};
  EXPECT_THAT(
      served.answer(request).body,
      testing::ContainsRegex("<main data-events=\"/events\\?state=finished&amp;sort=started&amp;"
                             "order=down&amp;seen=[0-9a-f]+\">"));
  const PageReply events = served.get("/events");
  EXPECT_EQ(events.type, "text/event-stream");
  ASSERT_TRUE(events.events);
  EXPECT_THAT(*events.events(), HasSubstr("event: report\n"))
      << "the client has not seen any version";
  EXPECT_EQ(served.get("//events").status, 404);
}

TEST(Site, DamagedRunShowsItsProblem) {
  Served served;
  write_run(served.folder(), "r");
  served.folder().write("r/.retort/recipe.yaml", "a: [");
  EXPECT_THAT(served.get("/").body, HasSubstr("damaged: "));
  const PageReply reply = served.get("/run/" + served.id("r"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.body, HasSubstr("The record cannot be shown."));
  std::filesystem::remove_all(served.folder() / "r");
  EXPECT_EQ(served.get("/run/0").status, 404);
}

TEST(Site, SweepPageLinksToItsTrials) {
  Served served;
  const std::string line =
      R"({"sweep": 1, "recipe": "probe", "overrides": ["seed=1,2"], "folder": ".", "trials": [)"
      R"({"number": 0, "hash": "a", "settings": ["seed=1"]},)"
      R"( {"number": 1, "hash": "b", "settings": ["seed=2"]}]})";
  served.folder().write("s/sweep.jsonl", line + "\n");
  write_run(served.folder(), "s/0");
  const auto catalog = *served.catalog().refresh();
  ASSERT_EQ(catalog->sweeps.size(), 1u);
  EXPECT_THAT(served.get("/").body,
              AllOf(HasSubstr("(sweep)"), Not(HasSubstr("/run/" + served.id("s/0")))));
  EXPECT_THAT(served.get("/sweep/" + catalog->sweeps[0]->id).body,
              HasSubstr("<a href=\"/run/" + served.id("s/0") + "\">0</a>"));
  EXPECT_THAT(served.get("/run/" + served.id("s/0")).body, HasSubstr(">its sweep</a>"));
  const std::string address = "/sweep/" + catalog->sweeps[0]->id;
  EXPECT_THAT(served.get(address).body,
              HasSubstr("<main data-events=\"" + address + "/events?seen="));
  EXPECT_TRUE(served.get(address + "/events").events);
}

}  // namespace
}  // namespace runner
