#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "runner/parent/serve/http_message.h"
#include "runner/shared/disk/descriptor.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// A small HTTP server for this machine's own browser. It listens only on 127.0.0.1, reads requests
/// without bodies, and closes each connection after one reply. A fixed number of threads serve one
/// connection each, so a slow or stuck client does not delay others; at most half of them serve
/// events. A client gets ten seconds to send its request, and thirty to receive each part of the
/// reply.
class HttpServer {
 public:
  using Handler = std::function<PageReply(const PageRequest&)>;

  /// Opens a port; 0: any free one. kUsage if it is in use or not allowed. Connections wait until
  /// start().
  static Result<HttpServer> open(int port);

  /// Answers requests using `handler`, which is called by several threads at once and may throw.
  /// Borrows nothing else. Signals should be blocked before the call.
  void start(Handler handler);
  /// Closes all connections and waits for their threads. The destructor does this too.
  void stop();
  int port() const { return port_; }

  HttpServer(HttpServer&&) = default;
  ~HttpServer();

 private:
  class Connection;
  HttpServer(Descriptor socket, Descriptor end, int port)
      : socket_(std::move(socket)), end_(std::move(end)), port_(port) {}
  void serve();
  void answer(Descriptor client);
  void send_events(Connection& client, const PageReply& reply);

  Descriptor socket_, end_;  // end_ becomes readable when the server stops
  int port_ = 0;
  Handler handler_;
  std::unique_ptr<std::atomic<int>> streams_ = std::make_unique<std::atomic<int>>(0);
  std::vector<std::jthread> threads_;
};

}  // namespace runner
