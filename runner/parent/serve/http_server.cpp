#include "runner/parent/serve/http_server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>

#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace runner {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kThreads = 32, kMostStreams = 16;
constexpr std::size_t kLargestHead = 16 << 10;
constexpr milliseconds kForRequest(10'000), kForReply(30'000), kBetweenEvents(1000);
constexpr int kQuietEvents = 15;  // after this many, a line is sent to check that the client is
                                  // still there

Diagnostic no_port(int port, int error) {
  const std::string name = port == 0 ? "no port" : "port " + std::to_string(port);
  return {ErrorCode::kUsage,
          {},
          "",
          name + (port == 0 ? " can be opened: " : " cannot be opened: ") + std::strerror(error),
          "`--port 0` uses a free port, `--port N` a specific one"};
}

PageReply refusal(int status) {
  return {.status = status,
          .body = "The request was rejected (" + std::to_string(status) + ").\n",
          .type = "text/plain; charset=utf-8"};
}

}  // namespace

/// A non-blocking connection to a client, which ends when the server stops.
class HttpServer::Connection {
 public:
  Connection(Descriptor client, int end) : client_(std::move(client)), end_(end) {}

  /// Reads up to the empty line; returns 0, or the status for rejecting the request.
  int read_head(std::string& head) {
    const auto deadline = Clock::now() + kForRequest;
    std::array<char, 4096> piece;
    while (true) {
      const std::size_t end = head.find("\r\n\r\n");
      if (std::min(end, head.size()) > kLargestHead) return 431;
      if (end != head.npos) {
        head.resize(end + 4);
        return 0;
      }
      if (!wait(POLLIN, deadline)) return 408;
      const ssize_t size = ::recv(*client_, piece.data(), piece.size(), 0);
      if (size == 0) return 400;
      if (size > 0) head.append(piece.data(), static_cast<std::size_t>(size));
      else if (errno != EAGAIN && errno != EINTR) return 400;
    }
  }

  /// False if the client does not receive `bytes` in time or has disconnected.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      if (!wait(POLLOUT, Clock::now() + kForReply)) return false;
      const ssize_t size = ::send(*client_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (size > 0) bytes.remove_prefix(static_cast<std::size_t>(size));
      else if (errno != EAGAIN && errno != EINTR) return false;
    }
    return true;
  }

  /// Waits for `time`; false if the client disconnects or the server stops in the meantime.
  bool pause(milliseconds time) {
    const auto deadline = Clock::now() + time;
    std::array<char, 4096> piece;
    while (wait(POLLIN, deadline)) {
      const ssize_t size = ::recv(*client_, piece.data(), piece.size(), 0);
      if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) return false;
    }
    return !is_over_;
  }

  /// Ends the connection in such a way that the client still receives everything that was sent.
  void finish() {
    ::shutdown(*client_, SHUT_WR);
    pause(milliseconds(500));
  }

 private:
  bool wait(short events, Clock::time_point deadline) {
    while (!is_over_) {
      const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
      if (left <= 0) return false;
      pollfd wanted[2] = {{*client_, events, 0}, {end_, POLLIN, 0}};
      if (::poll(wanted, 2, static_cast<int>(left)) < 0 && errno != EINTR) return false;
      is_over_ = wanted[1].revents != 0;
      if (wanted[0].revents != 0) return !is_over_;
    }
    return false;
  }

  Descriptor client_;
  const int end_;
  bool is_over_ = false;
};

Result<HttpServer> HttpServer::open(int port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  Descriptor end(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const int on = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (!socket.is_open() || !end.is_open() ||
      ::setsockopt(*socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(*socket, any, size) != 0 || ::listen(*socket, SOMAXCONN) != 0 ||
      ::getsockname(*socket, any, &size) != 0)
    return no_port(port, errno);
  return HttpServer(std::move(socket), std::move(end), ntohs(address.sin_port));
}

void HttpServer::start(Handler handler) {
  handler_ = std::move(handler);
  for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { serve(); });
}

void HttpServer::stop() {
  const std::uint64_t one = 1;
  if (end_.is_open() && ::write(*end_, &one, sizeof one) < 0)
    return;  // the descriptor is already
             // readable
  threads_.clear();
}

HttpServer::~HttpServer() { stop(); }

/// Each thread waits for connections on its own; the kernel chooses among the threads.
void HttpServer::serve() {
  while (true) {
    pollfd wanted[2] = {{*socket_, POLLIN, 0}, {*end_, POLLIN, 0}};
    if (::poll(wanted, 2, -1) < 0 && errno != EINTR) return;
    if (wanted[1].revents != 0) return;
    Descriptor client(::accept4(*socket_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (client.is_open()) answer(std::move(client));
    else if (errno == EMFILE || errno == ENFILE) std::this_thread::sleep_for(milliseconds(100));
  }
}

void HttpServer::answer(Descriptor client) {
  Connection connection(std::move(client), *end_);
  std::string head;
  const int refused = connection.read_head(head);
  PageReply reply = refusal(refused);
  bool is_head = false;
  if (refused == 0) {
    auto request = parse_request(head);
    if (const int* status = std::get_if<int>(&request)) {
      reply = refusal(*status);
    } else {
      is_head = std::get<PageRequest>(request).method == "HEAD";
      try {
        reply = handler_(std::get<PageRequest>(request));
      } catch (const std::exception&) {
        reply = refusal(500);
      }
    }
  }
  if (reply.events && !is_head) send_events(connection, reply);
  else if (connection.send(reply_head(reply)) && !is_head) connection.send(reply.body);
  connection.finish();
}

void HttpServer::send_events(Connection& client, const PageReply& reply) {
  if (++*streams_ > kMostStreams) {
    const PageReply busy = refusal(503);
    client.send(reply_head(busy) + busy.body);
  } else if (client.send(reply_head(reply))) {
    int quiet = 0;
    try {
      for (auto text = reply.events(); text; text = reply.events()) {
        quiet = text->empty() ? quiet + 1 : 0;
        if (quiet == kQuietEvents) *text = ":\n\n", quiet = 0;
        if (!client.send(*text) || !client.pause(kBetweenEvents)) break;
      }
    } catch (const std::exception&) {
      // The client will try again.
    }
  }
  --*streams_;
}

}  // namespace runner
