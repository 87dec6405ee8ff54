#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

#include "runner/shared/disk/descriptor.h"

/// A socket that listens on a free port of all interfaces.
struct ListeningSocket {
  ListeningSocket() : socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_ANY);
    socklen_t size = sizeof any;
    EXPECT_EQ(::bind(*socket, reinterpret_cast<sockaddr*>(&any), size), 0);
    EXPECT_EQ(::listen(*socket, 1), 0);
    EXPECT_EQ(::getsockname(*socket, reinterpret_cast<sockaddr*>(&any), &size), 0);
    port = ntohs(any.sin_port);
  }
  runner::Descriptor socket;
  int port = 0;
};

/// A port on which nothing listens.
inline int free_port() { return ListeningSocket().port; }
