#include "runner/parent/serve/http_server.h"

#include <gmock/gmock.h>

#include "tests/support/free_port.h"
#include "tests/support/http_client.h"

namespace runner {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() {
    server_.start([](const PageRequest& request) -> PageReply {
      if (request.path == "/events")
        return {.type = "text/event-stream", .events = [] { return std::string("data: 1\n\n"); }};
      if (request.path == "/throw") throw std::runtime_error("wrong");
      return {.body = request.method + " " + request.path};
    });
  }
  std::string answer(const std::string& request) { return answer_of(server_.port(), request); }

  HttpServer server_ = *HttpServer::open(0);
};

TEST_F(HttpServerTest, AnswersAndEndsTheConnection) {
  EXPECT_THAT(answer("GET /a HTTP/1.1"), EndsWith("\r\nContent-Length: 6\r\n\r\nGET /a"));
}

TEST_F(HttpServerTest, HeadReplyHasNoBody) {
  EXPECT_THAT(answer("HEAD /a HTTP/1.1"), EndsWith("Content-Length: 7\r\n\r\n"));
  EXPECT_THAT(answer("HEAD /events HTTP/1.1"), EndsWith("\r\n\r\n"));
}

TEST_F(HttpServerTest, LongAndMalformedRequestsAreRejected) {
  EXPECT_THAT(answer("GET /" + std::string(20'000, 'a') + " HTTP/1.1").substr(0, 12),
              "HTTP/1.1 431");
  EXPECT_THAT(answer("nonsense"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(answer("GET /throw HTTP/1.1"), StartsWith("HTTP/1.1 500 "));
}

TEST_F(HttpServerTest, StuckClientsDoNotDelayOthers) {
  std::vector<HttpClient> stuck;
  for (int i = 0; i < 10; ++i) stuck.emplace_back(server_.port()).send("GET / HT");
  std::vector<HttpClient> followers;
  for (int i = 0; i < 16; ++i)
    followers.emplace_back(server_.port()).send("GET /events HTTP/1.1\r\n\r\n");
  for (HttpClient& one : followers)
    EXPECT_THAT(one.receive_until("data: 1\n\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(answer("GET /events HTTP/1.1"), StartsWith("HTTP/1.1 503 "))
      << "half of the threads remain for pages";
  EXPECT_THAT(answer("GET /a HTTP/1.1"), EndsWith("GET /a"));
}

TEST_F(HttpServerTest, StopEndsEventsAndStuckClients) {
  HttpClient follower(server_.port()), stuck(server_.port());
  follower.send("GET /events HTTP/1.1\r\n\r\n");
  follower.receive_until("data: 1\n\n");
  stuck.send("GET / HT");
  server_.stop();
  EXPECT_THAT(follower.receive_all(), Not(HasSubstr("HTTP/1.1")));
  stuck.receive_all();
}

TEST(HttpServerPort, PortInUseIsRejected) {
  const auto first = HttpServer::open(0);
  ASSERT_TRUE(first);
  const auto second = HttpServer::open(first->port());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.errors().front().message,
            "port " + std::to_string(first->port()) + " cannot be opened: Address already in use");
}

}  // namespace
}  // namespace runner
