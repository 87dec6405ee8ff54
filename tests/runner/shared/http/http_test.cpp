#include "runner/shared/http/http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/shared/stage/run_context.h"
#include "tests/support/http_server.h"
#include "tests/support/scoped_variable.h"

namespace runner {
namespace {

struct Got {
  HttpReply reply;
  std::string body;
};

Got got(const HttpRequest& request, const HttpSettings& settings = {}) {
  Got got;
  got.reply =
      send(request, settings, [&](const HttpReply&, std::string_view bytes) { got.body += bytes; });
  return got;
}

std::string http_failure(const HttpRequest& request, const HttpSettings& settings = {}) {
  try {
    got(request, settings);
    return "";
  } catch (const HttpError& error) {
    return (error.is_passing ? "passing: " : "lasting: ") + std::string(error.what());
  }
}

ServedReply leading_to(const std::string& url, int status = 302) {
  return {.status = status, .headers = {{"Location", url}}, .body = "this way"};
}

TEST(Http, RedirectIsFollowedAndItsPageIsNotTheBody) {
  const HttpServer server([](const SeenRequest& request) {
    return request.target == "/a" ? leading_to("/b", 307)
                                  : ServedReply{.headers = {{"X-Two", " 2 "}}, .body = "bytes"};
  });
  const Got answer = got({.url = server.url("/a")});
  EXPECT_EQ(answer.reply.status, 200);
  EXPECT_EQ(answer.reply.url, server.url("/b"));
  EXPECT_EQ(answer.reply.headers.at("x-two"), "2");
  EXPECT_FALSE(answer.reply.headers.contains("location"));
  EXPECT_TRUE(answer.reply.first_seen.contains("location"));
  EXPECT_EQ(answer.body, "bytes");
}

TEST(Http, TokenIsNotSentToAnotherHost) {
  const HttpServer other([](const SeenRequest&) { return ServedReply{.body = "bytes"}; });
  const HttpServer server([&](const SeenRequest& request) {
    return leading_to(request.target == "/a" ? "/b" : other.url("/c"));
  });
  EXPECT_EQ(got({.url = server.url("/a"), .token = "hf_secret"}).body, "bytes");
  ASSERT_EQ(server.seen().size(), 2u);
  EXPECT_EQ(server.seen()[0].header("authorization"), "Bearer hf_secret");
  EXPECT_EQ(server.seen()[1].header("authorization"), "Bearer hf_secret");
  ASSERT_EQ(other.seen().size(), 1u);  // a different port counts as a different host
  EXPECT_EQ(other.seen()[0].header("authorization"), "");
}

TEST(Http, RedirectToAnotherHostIsNotFollowedOnRequest) {
  const HttpServer server([](const SeenRequest&) { return leading_to("http://data.invalid/a"); });
  const Got answer = got({.url = server.url("/a"), .wants_body = false, .leaves_host = false});
  EXPECT_EQ(answer.reply.status, 302);
  EXPECT_EQ(server.seen()[0].method, "HEAD");
}

TEST(Http, OtherProtocolsAreNotFollowed) {
  const HttpServer server([](const SeenRequest& request) {
    return leading_to(request.target == "/a" ? "file:///etc/passwd" : request.target);
  });
  EXPECT_EQ(
      http_failure({.url = server.url("/a")}),
      "lasting: " + server.url("/a") + " redirects to 'file:///etc/passwd', which is not followed");
  EXPECT_EQ(http_failure({.url = server.url("/b")}),
            "lasting: " + server.url("/b") + " redirects too many times");
  EXPECT_EQ(server.seen().size(), 12u);
  EXPECT_EQ(http_failure({.url = "ftp://a/b?c"}),
            "lasting: 'ftp://a/b' is not an http: or https: address");
}

TEST(Http, HttpsIsNotRedirectedToHttp) {
  EXPECT_TRUE(is_followed("https://a/b", "https://c"));
  EXPECT_TRUE(is_followed("http://a/b", "HTTPS://c"));
  EXPECT_TRUE(is_followed("http://a/b", "http://c"));
  EXPECT_FALSE(is_followed("https://a/b", "http://a/b"));
  EXPECT_FALSE(is_followed("HTTPS://a/b", "http://a/b"));
  EXPECT_FALSE(is_followed("http://a/b", "ftp://a/b"));
}

TEST(Http, DroppedConnectionIsATemporaryFailure) {
  const HttpServer server(
      [](const SeenRequest&) { return ServedReply{.body = "0123456789", .cut_after = 4}; });
  EXPECT_EQ(http_failure({.url = server.url("/a")}),
            "passing: " + server.url("/a") + ": transfer closed with 6 bytes remaining to read");
}

TEST(Http, MissingOrSilentServerIsATemporaryFailure) {
  std::string url;
  {
    url = HttpServer([](const SeenRequest&) { return ServedReply{}; }).url("/a");
  }
  EXPECT_THAT(http_failure({.url = url}),
              testing::StartsWith("passing: " + url + ": Failed to connect to 127.0.0.1"));
  const HttpServer server([](const SeenRequest&) { return ServedReply{.stalls = true}; });
  EXPECT_THAT(http_failure({.url = server.url("/a")}, {.stall_seconds = 1}),
              testing::StartsWith("passing: " + server.url("/a") + ": Operation too slow"));
}

TEST(Http, ProxyIsUsedUnlessNoProxyNamesTheHost) {
  const HttpServer proxy([](const SeenRequest&) { return ServedReply{.body = "by proxy"}; });
  const HttpServer server([](const SeenRequest&) { return ServedReply{.body = "directly"}; });
  const ScopedVariable variable("http_proxy", proxy.url());
  {
    const ScopedVariable none("no_proxy", "");
    EXPECT_EQ(got({.url = "http://data.invalid/a"}).body, "by proxy");
    EXPECT_EQ(proxy.seen().at(0).target, "http://data.invalid/a");
  }
  const ScopedVariable direct("no_proxy", "127.0.0.1");
  EXPECT_EQ(got({.url = server.url("/a")}).body, "directly");
  EXPECT_EQ(proxy.seen().size(), 1u);
}

TEST(Http, HttpsGoesThroughTheProxyByConnect) {
  const HttpServer proxy([](const SeenRequest&) { return ServedReply{.status = 403}; });
  const ScopedVariable variable("https_proxy", proxy.url());
  EXPECT_NE(http_failure({.url = "https://data.invalid/a"}), "");
  EXPECT_EQ(proxy.seen().at(0).method, "CONNECT");
  EXPECT_EQ(proxy.seen().at(0).target, "data.invalid:443");
}

TEST(Http, CancellationAndExceptionsPropagate) {
  const HttpServer server([](const SeenRequest&) { return ServedReply{.stalls = true}; });
  EXPECT_THROW(got({.url = server.url("/a")}, {.canceled = [] { return true; }}), Canceled);
  const HttpServer other([](const SeenRequest&) { return ServedReply{.body = "bytes"}; });
  EXPECT_THROW(send({.url = other.url("/a")}, {},
                    [](const HttpReply&, std::string_view) { throw std::logic_error("x"); }),
               std::logic_error);
}

TEST(Http, MessagesContainNoSecrets) {
  EXPECT_EQ(shown_url("https://me:word@host/a?signature=1#x"), "https://host/a");
  EXPECT_EQ(origin_of("https://me@Host/a"), "https://host:443");
  EXPECT_NE(origin_of("http://host"), origin_of("https://host"));
  EXPECT_NE(origin_of("http://host:81"), origin_of("http://host"));
}

}  // namespace
}  // namespace runner
