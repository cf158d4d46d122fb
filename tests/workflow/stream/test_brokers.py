"""Streams of a real Redis server and of Kafka's own mock cluster, both started here."""

import json
import shutil
import subprocess
import time

import pytest

from tellwhy.bulk.stream.journal import Outlet
from tellwhy.bulk.stream.sources import KafkaTopic, RedisStream
from tellwhy.bulk.stream.watch import Settings, Watch
from tellwhy.core.errors import InvalidParameter, UnreadableFile

from .conftest import ODD


@pytest.fixture(scope="module")
def redis_address(tmp_path_factory):
    redis = pytest.importorskip("redis")
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no redis-server is installed here")
    from tellwhy.views.server.http import open_socket

    with open_socket("127.0.0.1", 0) as place:
        port = place.getsockname()[1]
    folder = tmp_path_factory.mktemp("redis")
    words = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    client = redis.Redis(port=port)
    for _ in range(200):
        try:
            client.ping()
            break
        except redis.ConnectionError:
            time.sleep(0.02)
    yield client, f"redis://127.0.0.1:{port}/0"
    client.close()
    process.terminate()
    process.wait(10)


def watched(model, folder, source, name, **how):
    watch = Watch(
        name,
        source,
        model=model,
        folder=folder,
        outlet=Outlet(folder / "alarms.jsonl"),
        settings=Settings(id_column="order"),
    )
    try:
        watch.run(**how)
    finally:
        watch.close()
    return [json.loads(line) for line in (folder / "alarms.jsonl").read_text().splitlines()]


def test_a_stream_of_redis_goes_on_where_it_was(model, stream, redis_address, tmp_path):
    client, address = redis_address
    rows = stream.astype(str).to_dict("records")
    for k, row in enumerate(rows):
        client.xadd("orders", row if k % 2 else {"event": json.dumps(row)})
    client.xadd("orders", {"event": "no json"})
    address = f"{address}?stream=orders"
    begun = watched(model, tmp_path / "w", RedisStream(address), address, most=300)
    ended = watched(model, tmp_path / "w", RedisStream(address), address, most=400)
    names = [line["id"] for line in ended if line["event"] == "alarm"]
    assert {f"A{k}" for k in ODD} <= set(names)
    assert len(names) == len(set(names))
    assert ended[: len(begun)] == begun
    with pytest.raises(InvalidParameter, match="stream"):
        RedisStream("redis://127.0.0.1:1/0")
    nowhere = RedisStream("redis://127.0.0.1:1/0?stream=orders")
    with pytest.raises(UnreadableFile, match="stream orders"):
        nowhere.read(10, 0.01)
    nowhere.close()


def test_a_topic_of_kafka_goes_on_where_it_was(model, stream, tmp_path):
    kafka = pytest.importorskip("confluent_kafka")
    producer = kafka.Producer({"test.mock.num.brokers": 1})  # a cluster inside this process
    broker = next(iter(producer.list_topics(timeout=10).brokers.values()))
    address = f"kafka://{broker.host}:{broker.port}/orders"
    for row in stream.to_dict("records"):
        producer.produce("orders", json.dumps(row), key=row["order"])
    producer.flush(10)
    begun = watched(model, tmp_path / "w", KafkaTopic(address), address, most=300)
    ended = watched(model, tmp_path / "w", KafkaTopic(address), address, most=700 - 300)
    names = [line["id"] for line in ended if line["event"] == "alarm"]
    assert {f"A{k}" for k in ODD} <= set(names)
    assert len(names) == len(set(names))
    assert ended[: len(begun)] == begun
    with pytest.raises(InvalidParameter, match="kafka://"):
        KafkaTopic("kafka://host")
