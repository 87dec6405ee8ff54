#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "runner/shared/disk/descriptor.h"

/// A connection to a server on this machine.
class HttpClient {
 public:
  explicit HttpClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    is_connected_ = ::connect(*socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  bool is_connected() const { return is_connected_; }

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t size = ::send(*socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (size <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(size));
    }
  }
  /// Returns what the server sends until `text` has arrived or the connection ends.
  std::string receive_until(const std::string& text) {
    std::string all;
    char piece[4096];
    while (text.empty() || all.find(text) == all.npos) {
      const ssize_t size = ::recv(*socket_, piece, sizeof piece, 0);
      if (size <= 0) break;
      all.append(piece, static_cast<std::size_t>(size));
    }
    return all;
  }
  std::string receive_all() { return receive_until(""); }

 private:
  runner::Descriptor socket_;
  bool is_connected_ = false;
};

/// A server's answer to a request with this head, to which a Host and the last empty line are
/// added.
inline std::string answer_of(int port, const std::string& request) {
  HttpClient client(port);
  client.send(request + "\r\nHost: 127.0.0.1:" + std::to_string(port) + "\r\n\r\n");
  return client.receive_all();
}
