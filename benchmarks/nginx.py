"""The reference: nginx as a reverse proxy with kept-alive upstream connections."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.stacks import Ask, Stack, free_port, output_of, program

_HINT = "on Debian, `apt-get install nginx-light`"

CONFIGURATION = """\
daemon off;
master_process off;
worker_rlimit_nofile 20000;
pid nginx.pid;
error_log stderr error;
events {{ worker_connections 16384; }}
http {{
  access_log off;
  tcp_nodelay on;
  keepalive_timeout 300s;
  keepalive_requests 1000000000;
  client_max_body_size 64m;
  client_body_buffer_size 8m;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  upstream scripted {{
    server 127.0.0.1:{upstream};
    keepalive 8192;
    keepalive_requests 1000000000;
    keepalive_timeout 300s;
  }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_read_timeout 300s;
    location / {{ proxy_pass http://scripted; }}
    location /events {{ proxy_pass http://scripted; proxy_buffering off; }}
  }}
}}
"""


class Nginx(Stack):
    """One process. Streams are passed on as they come, other answers are buffered as is usual."""

    name = "nginx"

    def start(self, scripts: Sequence[str]) -> None:
        self.port = free_port()
        configuration = self.directory / "nginx.conf"
        configuration.write_text(
            CONFIGURATION.format(upstream=self.upstream_port, port=self.port), "utf-8"
        )
        nginx = program("nginx", _HINT)
        self.run([nginx, "-p", self.directory, "-e", "stderr", "-c", configuration])
        self.wait_until_it_listens()

    def version(self) -> str:
        return output_of(program("nginx", _HINT), "-v").rpartition("/")[2]

    def path(self, ask: Ask) -> str:
        # It has no second credential to turn to; the plain answer is what it is compared with.
        script = "json1024" if ask.script == "throttled" else ask.script
        return f"/{script}/v1/chat/completions"
