#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

/// A request of a client. Header names are in lower case.
struct SeenRequest {
  std::string method, target;
  std::map<std::string, std::string> headers;
  std::string body = {};

  /// Empty if there is none.
  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

struct ServedReply {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
  std::optional<std::size_t> cut_after =
      {};  ///< the connection breaks off after this many bytes of the body
  bool stalls =
      false;  ///< nothing, or with `cut_after` nothing more, is sent until the client gives up
  bool has_length = true;  ///< sends the length of the body
};

/// An HTTP server on a free port of 127.0.0.1 during its lifetime: one request per connection, one
/// at a time.
class HttpServer {
 public:
  using Handler = std::function<ServedReply(const SeenRequest&)>;

  explicit HttpServer(Handler handler)
      : handler_(std::move(handler)), socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    // Clients of this server must not use a proxy; a test that needs one sets it later.
    for (const char* name : {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"})
      ::unsetenv(name);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ::bind(socket_, reinterpret_cast<sockaddr*>(&address), size);
    ::listen(socket_, 16);
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~HttpServer() {
    is_over_ = true;
    thread_.join();
    ::close(socket_);
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string url(const std::string& path = "") const {
    return "http://127.0.0.1:" + std::to_string(port_) + path;
  }
  /// Every request so far, in order.
  std::vector<SeenRequest> seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  void serve() {
    while (!is_over_) {
      pollfd wanted{socket_, POLLIN, 0};
      if (::poll(&wanted, 1, 20) != 1) continue;
      const int connection = ::accept(socket_, nullptr, nullptr);
      if (connection < 0) continue;
      answer(connection);
      ::close(connection);
    }
  }

  void answer(int connection) {
    std::string text;
    char piece[4096];
    while (text.find("\r\n\r\n") == text.npos) {
      const ssize_t size = ::recv(connection, piece, sizeof piece, 0);
      if (size <= 0) return;
      text.append(piece, static_cast<std::size_t>(size));
    }
    SeenRequest request = parsed(text);
    request.body = text.substr(text.find("\r\n\r\n") + 4);
    while (request.body.size() <
           std::strtoul(request.header("content-length").c_str(), nullptr, 10)) {
      const ssize_t size = ::recv(connection, piece, sizeof piece, 0);
      if (size <= 0) return;
      request.body.append(piece, static_cast<std::size_t>(size));
    }
    ServedReply reply = handler_(request);
    {
      const std::lock_guard lock(mutex_);
      seen_.push_back(request);
    }
    if (reply.stalls && !reply.cut_after) return await_end(connection);
    std::string head =
        "HTTP/1.1 " + std::to_string(reply.status) + " Whatever\r\nConnection: close\r\n";
    for (const auto& [name, value] : reply.headers) head += name + ": " + value + "\r\n";
    if (reply.has_length) head += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n";
    head += "\r\n";
    send_all(connection, head);
    if (request.method != "HEAD")
      send_all(connection, reply.body.substr(0, reply.cut_after.value_or(reply.body.size())));
    if (reply.stalls) return await_end(connection);
    ::shutdown(connection, SHUT_WR);
    while (::recv(connection, piece, sizeof piece, 0) > 0) {
    }
  }

  void await_end(int connection) const {
    char byte;
    while (!is_over_ && ::recv(connection, &byte, 1, MSG_DONTWAIT) != 0) ::usleep(10'000);
  }

  static SeenRequest parsed(const std::string& text) {
    SeenRequest request;
    const std::size_t first = text.find(' '), second = text.find(' ', first + 1);
    request.method = text.substr(0, first);
    request.target = text.substr(first + 1, second - first - 1);
    for (std::size_t at = text.find("\r\n") + 2; text.compare(at, 2, "\r\n") != 0;) {
      const std::size_t end = text.find("\r\n", at), colon = text.find(':', at);
      std::string name = text.substr(at, colon - at);
      std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
      request.headers[name] = text.substr(text.find_first_not_of(' ', colon + 1),
                                          end - text.find_first_not_of(' ', colon + 1));
      at = end + 2;
    }
    return request;
  }

  static void send_all(int connection, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t size = ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (size <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(size));
    }
  }

  const Handler handler_;
  const int socket_;
  int port_ = 0;
  std::atomic<bool> is_over_ = false;
  mutable std::mutex mutex_;
  std::vector<SeenRequest> seen_;
  std::thread thread_;
};

/// `bytes` as served by a server that supports ranges and has `tag` for them.
inline ServedReply served(const SeenRequest& request, const std::string& bytes,
                          const std::string& tag = "\"v1\"") {
  const std::string range = request.header("range"), only_if = request.header("if-range");
  ServedReply reply{.headers = {{"ETag", tag}, {"Accept-Ranges", "bytes"}}};
  if (range.empty() || (!only_if.empty() && only_if != tag)) {
    reply.body = bytes;
    return reply;
  }
  const std::size_t begin = std::stoul(range.substr(std::string("bytes=").size()));
  if (begin >= bytes.size()) {
    reply.status = 416;
    reply.headers.emplace_back("Content-Range", "bytes */" + std::to_string(bytes.size()));
    return reply;
  }
  reply.status = 206;
  reply.headers.emplace_back("Content-Range", "bytes " + std::to_string(begin) + "-" +
                                                  std::to_string(bytes.size() - 1) + "/" +
                                                  std::to_string(bytes.size()));
  reply.body = bytes.substr(begin);
  return reply;
}
